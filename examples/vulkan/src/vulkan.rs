//! As much of Vulkan as the example needs.

use std::error::Error;
use std::os::fd::{FromRawFd, OwnedFd};

use ash::{khr, vk};

const OPAQUE_FD: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
const SEMAPHORE_FD: vk::ExternalSemaphoreHandleTypeFlags =
    vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

/// All of an image.
const COLOR: vk::ImageSubresourceRange = vk::ImageSubresourceRange {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    base_mip_level: 0,
    level_count: 1,
    base_array_layer: 0,
    layer_count: 1,
};

/// Memory that Vulkan exports.
pub struct Exported {
    pub descriptor: OwnedFd,
    pub bytes: usize,
}

/// A device without a window. What it makes ends with the process.
pub struct Vulkan {
    _entry: ash::Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    queue: vk::Queue,
    family: u32,
    buffer: vk::Buffer,
    image: vk::Image,
    values: u32,
    extent: vk::Extent3D,
    filled: vk::Semaphore,
    written: vk::Semaphore,
}

impl Vulkan {
    /// The device with the identity that the driver gives it.
    pub fn new(uuid: [u8; 16]) -> Result<Vulkan, Box<dyn Error>> {
        // SAFETY: the loader's library is what its name says.
        let entry = unsafe { ash::Entry::load() }?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let created = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: whole descriptions; handles are live, and used by this thread alone. So below.
        unsafe {
            let instance = entry.create_instance(&created, None)?;
            let mut found = None;
            for physical in instance.enumerate_physical_devices()? {
                let mut identity = vk::PhysicalDeviceIDProperties::default();
                let mut properties =
                    vk::PhysicalDeviceProperties2::default().push_next(&mut identity);
                instance.get_physical_device_properties2(physical, &mut properties);
                if identity.device_uuid == uuid {
                    found = Some(physical);
                }
            }
            let physical = found.ok_or("Vulkan has no device with the driver's identity")?;
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families
                .iter()
                .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE))
                .ok_or("the device has no queue for computing")? as u32;
            let queues = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&[1.0])];
            let extensions = [
                khr::external_memory_fd::NAME.as_ptr(),
                khr::external_semaphore_fd::NAME.as_ptr(),
            ];
            let mut timeline =
                vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
            let created = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions)
                .push_next(&mut timeline);
            let device = instance.create_device(physical, &created, None)?;
            let queue = device.get_device_queue(family, 0);
            Ok(Vulkan {
                _entry: entry,
                instance,
                physical,
                device,
                queue,
                family,
                buffer: vk::Buffer::null(),
                image: vk::Image::null(),
                values: 0,
                extent: vk::Extent3D::default(),
                filled: vk::Semaphore::null(),
                written: vk::Semaphore::null(),
            })
        }
    }

    /// The device's name.
    pub fn name(&self) -> String {
        // SAFETY: as above.
        let properties = unsafe { self.instance.get_physical_device_properties(self.physical) };
        let name = properties.device_name_as_c_str();
        name.map_or_else(
            |_| "?".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    fn memory_type(
        &self,
        allowed: u32,
        wanted: vk::MemoryPropertyFlags,
    ) -> Result<u32, Box<dyn Error>> {
        // SAFETY: as above.
        let all = unsafe {
            self.instance
                .get_physical_device_memory_properties(self.physical)
        };
        let types = all.memory_types_as_slice().iter().zip(0..);
        let mut fitting =
            types.filter(|(kind, n)| allowed >> n & 1 == 1 && kind.property_flags.contains(wanted));
        Ok(fitting.next().ok_or("no memory is of the kind wanted")?.1)
    }

    fn export(&self, memory: vk::DeviceMemory) -> Result<OwnedFd, Box<dyn Error>> {
        let described = vk::MemoryGetFdInfoKHR::default()
            .memory(memory)
            .handle_type(OPAQUE_FD);
        let extension = khr::external_memory_fd::Device::new(&self.instance, &self.device);
        // SAFETY: as above; the descriptor is our own.
        Ok(unsafe { OwnedFd::from_raw_fd(extension.get_memory_fd(&described)?) })
    }

    /// A buffer of so many numbers, and an image with optimal tiling.
    pub fn make(
        &mut self,
        values: u32,
        width: u32,
        height: u32,
    ) -> Result<(Exported, Exported), Box<dyn Error>> {
        let device = &self.device;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(OPAQUE_FD);
        let created = vk::BufferCreateInfo::default()
            .size(u64::from(values) * 4)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST)
            .push_next(&mut external);
        // SAFETY: as above.
        unsafe {
            self.buffer = device.create_buffer(&created, None)?;
            let needs = device.get_buffer_memory_requirements(self.buffer);
            let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(OPAQUE_FD);
            let allocated = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(self.memory_type(
                    needs.memory_type_bits,
                    vk::MemoryPropertyFlags::DEVICE_LOCAL,
                )?)
                .push_next(&mut export);
            let memory = device.allocate_memory(&allocated, None)?;
            device.bind_buffer_memory(self.buffer, memory, 0)?;
            let buffer = Exported {
                descriptor: self.export(memory)?,
                bytes: needs.size as usize,
            };

            let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(OPAQUE_FD);
            let extent = vk::Extent3D {
                width,
                height,
                depth: 1,
            };
            let created = vk::ImageCreateInfo::default()
                .image_type(vk::ImageType::TYPE_2D)
                .format(vk::Format::R32_UINT)
                .extent(extent)
                .mip_levels(1)
                .array_layers(1)
                .samples(vk::SampleCountFlags::TYPE_1)
                .tiling(vk::ImageTiling::OPTIMAL)
                .usage(
                    vk::ImageUsageFlags::STORAGE
                        | vk::ImageUsageFlags::TRANSFER_SRC
                        | vk::ImageUsageFlags::TRANSFER_DST,
                )
                .push_next(&mut external);
            self.image = device.create_image(&created, None)?;
            let needs = device.get_image_memory_requirements(self.image);
            let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(OPAQUE_FD);
            let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().image(self.image);
            let allocated = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(self.memory_type(
                    needs.memory_type_bits,
                    vk::MemoryPropertyFlags::DEVICE_LOCAL,
                )?)
                .push_next(&mut export)
                .push_next(&mut dedicated);
            let memory = device.allocate_memory(&allocated, None)?;
            device.bind_image_memory(self.image, memory, 0)?;
            let image = Exported {
                descriptor: self.export(memory)?,
                bytes: needs.size as usize,
            };
            (self.values, self.extent) = (values, extent);
            Ok((buffer, image))
        }
    }

    /// A timeline that Vulkan raises to 1 when both are filled, and a binary semaphore that it
    /// waits for before it reads.
    pub fn make_semaphores(&mut self) -> Result<(OwnedFd, OwnedFd), Box<dyn Error>> {
        let extension = khr::external_semaphore_fd::Device::new(&self.instance, &self.device);
        let mut made = Vec::new();
        for kind in [vk::SemaphoreType::TIMELINE, vk::SemaphoreType::BINARY] {
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(kind);
            let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(SEMAPHORE_FD);
            let created = vk::SemaphoreCreateInfo::default()
                .push_next(&mut kind)
                .push_next(&mut export);
            // SAFETY: as above; the descriptor is our own.
            unsafe {
                let semaphore = self.device.create_semaphore(&created, None)?;
                let described = vk::SemaphoreGetFdInfoKHR::default()
                    .semaphore(semaphore)
                    .handle_type(SEMAPHORE_FD);
                let descriptor = extension.get_semaphore_fd(&described)?;
                made.push((semaphore, OwnedFd::from_raw_fd(descriptor)));
            }
        }
        let (written, binary) = made.pop().ok_or("no semaphore")?;
        let (filled, timeline) = made.pop().ok_or("no semaphore")?;
        (self.filled, self.written) = (filled, written);
        Ok((timeline, binary))
    }

    /// From one use of the image to another, and from or to the driver.
    fn image_barrier(
        &self,
        layouts: [vk::ImageLayout; 2],
        families: [u32; 2],
    ) -> vk::ImageMemoryBarrier<'static> {
        vk::ImageMemoryBarrier::default()
            .old_layout(layouts[0])
            .new_layout(layouts[1])
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
            .src_queue_family_index(families[0])
            .dst_queue_family_index(families[1])
            .image(self.image)
            .subresource_range(COLOR)
    }

    fn buffer_barrier(&self, families: [u32; 2]) -> vk::BufferMemoryBarrier<'static> {
        vk::BufferMemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
            .src_queue_family_index(families[0])
            .dst_queue_family_index(families[1])
            .buffer(self.buffer)
            .size(vk::WHOLE_SIZE)
    }

    fn barrier(
        &self,
        commands: vk::CommandBuffer,
        buffers: &[vk::BufferMemoryBarrier<'_>],
        images: &[vk::ImageMemoryBarrier<'_>],
    ) {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let none = vk::DependencyFlags::empty();
        // SAFETY: as above.
        unsafe {
            let device = &self.device;
            device.cmd_pipeline_barrier(commands, all, all, none, &[], buffers, images);
        }
    }

    /// Fills both and signals the timeline; waits for the binary semaphore, and gives what both
    /// have then.
    pub fn fill_and_read(
        &mut self,
        buffer: u32,
        image: u32,
    ) -> Result<(Vec<u32>, Vec<u32>), Box<dyn Error>> {
        use vk::ImageLayout as Layout;
        let here = self.family;
        let outside = vk::QUEUE_FAMILY_EXTERNAL;
        let device = &self.device;
        let texels = self.extent.width * self.extent.height;
        let bytes = u64::from(self.values) * 4;
        let image_bytes = u64::from(texels) * 4;
        // SAFETY: as above; the host reads when the fence says that all is done.
        unsafe {
            let created = vk::BufferCreateInfo::default()
                .size(bytes + image_bytes)
                .usage(vk::BufferUsageFlags::TRANSFER_DST);
            let result = device.create_buffer(&created, None)?;
            let needs = device.get_buffer_memory_requirements(result);
            let visible =
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let allocated = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(self.memory_type(needs.memory_type_bits, visible)?);
            let memory = device.allocate_memory(&allocated, None)?;
            device.bind_buffer_memory(result, memory, 0)?;

            let created = vk::CommandPoolCreateInfo::default().queue_family_index(here);
            let pool = device.create_command_pool(&created, None)?;
            let allocated = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(2);
            let lists = device.allocate_command_buffers(&allocated)?;
            let [fill, read] = [lists[0], lists[1]];
            let once = vk::CommandBufferBeginInfo::default()
                .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);

            device.begin_command_buffer(fill, &once)?;
            device.cmd_fill_buffer(fill, self.buffer, 0, bytes, buffer);
            let same = [vk::QUEUE_FAMILY_IGNORED; 2];
            let begin = self.image_barrier([Layout::UNDEFINED, Layout::GENERAL], same);
            self.barrier(fill, &[], &[begin]);
            let color = vk::ClearColorValue { uint32: [image; 4] };
            device.cmd_clear_color_image(fill, self.image, Layout::GENERAL, &color, &[COLOR]);
            let general = [Layout::GENERAL; 2];
            let away = [here, outside];
            let buffers = [self.buffer_barrier(away)];
            self.barrier(fill, &buffers, &[self.image_barrier(general, away)]);
            device.end_command_buffer(fill)?;

            device.begin_command_buffer(read, &once)?;
            let back = [outside, here];
            let buffers = [self.buffer_barrier(back)];
            self.barrier(read, &buffers, &[self.image_barrier(general, back)]);
            let whole = vk::BufferCopy::default().size(bytes);
            device.cmd_copy_buffer(read, self.buffer, result, &[whole]);
            let layers = vk::ImageSubresourceLayers::default()
                .aspect_mask(vk::ImageAspectFlags::COLOR)
                .layer_count(1);
            let behind = vk::BufferImageCopy::default()
                .buffer_offset(bytes)
                .image_subresource(layers)
                .image_extent(self.extent);
            let from = (self.image, Layout::GENERAL);
            device.cmd_copy_image_to_buffer(read, from.0, from.1, result, &[behind]);
            let for_host = vk::BufferMemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .buffer(result)
                .size(vk::WHOLE_SIZE);
            device.cmd_pipeline_barrier(
                read,
                vk::PipelineStageFlags::TRANSFER,
                vk::PipelineStageFlags::HOST,
                vk::DependencyFlags::empty(),
                &[],
                &[for_host],
                &[],
            );
            device.end_command_buffer(read)?;

            let (fill, read) = ([fill], [read]);
            let (filled, written) = ([self.filled], [self.written]);
            let values = [1];
            let mut timeline =
                vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
            let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
            let submits = [
                vk::SubmitInfo::default()
                    .command_buffers(&fill)
                    .signal_semaphores(&filled)
                    .push_next(&mut timeline),
                vk::SubmitInfo::default()
                    .command_buffers(&read)
                    .wait_semaphores(&written)
                    .wait_dst_stage_mask(&stages),
            ];
            let done = device.create_fence(&vk::FenceCreateInfo::default(), None)?;
            device.queue_submit(self.queue, &submits, done)?;
            const SECONDS: u64 = 1_000_000_000;
            device.wait_for_fences(&[done], true, 20 * SECONDS)?;

            let flags = vk::MemoryMapFlags::empty();
            let mapped = device.map_memory(memory, 0, vk::WHOLE_SIZE, flags)?;
            let all: &[u32] =
                std::slice::from_raw_parts(mapped.cast(), (self.values + texels) as usize);
            let (values, texels) = all.split_at(self.values as usize);
            Ok((values.to_vec(), texels.to_vec()))
        }
    }
}

//! Stream attributes (`CUstreamAttrID`).

use crate::driver::device::settings::Scheduling;
use crate::driver::error::Error;
use crate::driver::stream::Stream;
use api::{Api, AttributeBits, CUdeviceptr};

/// L2 caching of accesses (`CUaccessProperty`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AccessProperty {
    /// Normal caching.
    #[default]
    Normal = 0,
    /// Lines are evicted first.
    Streaming = 1,
    /// Lines persist, in the part of L2 that
    /// [`Limit::PERSISTING_L2_CACHE_SIZE`](crate::driver::Limit::PERSISTING_L2_CACHE_SIZE)
    /// sets aside.
    Persisting = 2,
}

/// An access policy window: a range of memory with its own L2 caching
/// (`CUaccessPolicyWindow`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessPolicy {
    /// First address of the window.
    pub address: CUdeviceptr,
    /// Bytes of the window, at most
    /// [`DeviceAttribute::MAX_ACCESS_POLICY_WINDOW_SIZE`](crate::driver::DeviceAttribute::MAX_ACCESS_POLICY_WINDOW_SIZE);
    /// 0 is no window.
    pub bytes: usize,
    /// Fraction of accesses treated as `hit`, 0 to 1; the others are `miss`.
    pub hit_ratio: f32,
    /// Caching of hits.
    pub hit: AccessProperty,
    /// Caching of misses; not persisting.
    pub miss: AccessProperty,
}

impl AccessPolicy {
    /// No window.
    pub const NONE: AccessPolicy = AccessPolicy {
        address: 0,
        bytes: 0,
        hit_ratio: 0.0,
        hit: AccessProperty::Normal,
        miss: AccessProperty::Normal,
    };

    fn bits(self) -> AttributeBits {
        let [address, bytes] = [self.address, self.bytes as u64].map(u64::to_ne_bytes);
        let word = |bytes: [u8; 8], at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut bits = AttributeBits::default();
        bits.0[..7].copy_from_slice(&[
            word(address, 0),
            word(address, 4),
            word(bytes, 0),
            word(bytes, 4),
            self.hit_ratio.to_bits(),
            self.hit as u32,
            self.miss as u32,
        ]);
        bits
    }

    fn read(AttributeBits(bits): AttributeBits) -> AccessPolicy {
        let long = |at: usize| {
            let [[a, b, c, d], [e, f, g, h]] = [bits[at], bits[at + 1]].map(u32::to_ne_bytes);
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        };
        let property = |number| match number {
            1 => AccessProperty::Streaming,
            2 => AccessProperty::Persisting,
            _ => AccessProperty::Normal,
        };
        AccessPolicy {
            address: long(0),
            bytes: long(2) as usize, // as it was given
            hit_ratio: f32::from_bits(bits[4]),
            hit: property(bits[5]),
            miss: property(bits[6]),
        }
    }
}

/// `CU_STREAM_ATTRIBUTE_*`
const ACCESS_POLICY: u32 = 1;
const SYNCHRONIZATION: u32 = 3;
const MEMORY_DOMAIN: u32 = 10;

impl Stream {
    /// The access policy window of its kernels (`cuStreamGetAttribute`, from CUDA 11.0).
    pub fn access_policy(&self) -> Result<AccessPolicy, Error> {
        self.attribute(ACCESS_POLICY).map(AccessPolicy::read)
    }

    /// Sets it for what is queued from now on (`cuStreamSetAttribute`, from CUDA
    /// 11.0). Devices from capability 8.0 on heed it.
    pub fn set_access_policy(&self, policy: AccessPolicy) -> Result<(), Error> {
        self.set_attribute(ACCESS_POLICY, policy.bits())
    }

    /// How a thread waits for it (`cuStreamGetAttribute`); `None` for a number
    /// without a name.
    pub fn synchronization(&self) -> Result<Option<Scheduling>, Error> {
        use Scheduling::{Auto, Block, Spin, Yield};
        let number = self.attribute(SYNCHRONIZATION)?.0[0] as usize;
        let index = number.checked_sub(1);
        Ok(index.and_then(|index| [Auto, Spin, Yield, Block].get(index).copied()))
    }

    /// Sets it (`cuStreamSetAttribute`).
    pub fn set_synchronization(&self, how: Scheduling) -> Result<(), Error> {
        let number = match how {
            Scheduling::Auto => 1,
            Scheduling::Spin => 2,
            Scheduling::Yield => 3,
            Scheduling::Block => 4,
        };
        let mut bits = AttributeBits::default();
        bits.0[0] = number;
        self.set_attribute(SYNCHRONIZATION, bits)
    }

    /// Whether its kernels use the remote memory synchronisation domain
    /// (`cuStreamGetAttribute`, `CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN`, from CUDA 12.0).
    pub fn has_remote_memory_domain(&self) -> Result<bool, Error> {
        Ok(self.attribute(MEMORY_DOMAIN)?.0[0] == 1)
    }

    /// Sets it (`cuStreamSetAttribute`).
    pub fn set_remote_memory_domain(&self, remote: bool) -> Result<(), Error> {
        let mut bits = AttributeBits::default();
        bits.0[0] = u32::from(remote);
        self.set_attribute(MEMORY_DOMAIN, bits)
    }

    /// Copies the attributes of another stream of its context (`cuStreamCopyAttributes`,
    /// from CUDA 11.0).
    pub fn copy_attributes_from(&self, other: &Stream) -> Result<(), Error> {
        if other.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "streams with the same attributes",
            });
        }
        // SAFETY: both streams are live.
        unsafe {
            Ok(self
                .api()?
                .cuStreamCopyAttributes(self.raw(), other.raw())?)
        }
    }

    fn attribute(&self, number: u32) -> Result<AttributeBits, Error> {
        let mut bits = AttributeBits::default();
        // SAFETY: the stream is live; writes no more than the bits.
        unsafe {
            self.api()?
                .cuStreamGetAttribute(self.raw(), number, &mut bits)
        }?;
        Ok(bits)
    }

    fn set_attribute(&self, number: u32, bits: AttributeBits) -> Result<(), Error> {
        // SAFETY: the stream is live; the bits are what the attribute takes.
        unsafe {
            Ok(self
                .api()?
                .cuStreamSetAttribute(self.raw(), number, &bits)?)
        }
    }

    fn api(&self) -> Result<&'static Api, Error> {
        self.context().bind()
    }
}

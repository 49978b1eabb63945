//! The error numbers of the driver API: names, what they mean for the user,
//! and which of them end a context.

use std::fmt;

/// An error number as the driver gave it (`CUresult`); numbers without a name
/// stay what they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CudaError(pub i32);

impl CudaError {
    /// `CUDA_ERROR_INVALID_VALUE`: an argument is out of its range.
    pub const INVALID_VALUE: CudaError = CudaError(1);
    /// `CUDA_ERROR_OUT_OF_MEMORY`: of the device, or pinned.
    pub const OUT_OF_MEMORY: CudaError = CudaError(2);
    /// `CUDA_ERROR_NO_DEVICE`: the driver sees no GPU.
    pub const NO_DEVICE: CudaError = CudaError(100);
    /// `CUDA_ERROR_INVALID_DEVICE`: no device has that number.
    pub const INVALID_DEVICE: CudaError = CudaError(101);
    /// `CUDA_ERROR_INVALID_CONTEXT`: none is current, or it is gone.
    pub const INVALID_CONTEXT: CudaError = CudaError(201);
    /// `CUDA_ERROR_NO_BINARY_FOR_GPU`: the image has nothing for this device.
    pub const NO_BINARY_FOR_GPU: CudaError = CudaError(209);
    /// `CUDA_ERROR_INVALID_PTX`: it does not compile.
    pub const INVALID_PTX: CudaError = CudaError(218);
    /// `CUDA_ERROR_JIT_COMPILER_NOT_FOUND`: the driver's compiler library is missing.
    pub const JIT_COMPILER_NOT_FOUND: CudaError = CudaError(221);
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`: the PTX is newer than the driver.
    pub const UNSUPPORTED_PTX_VERSION: CudaError = CudaError(222);
    /// `CUDA_ERROR_NOT_FOUND`: no kernel, variable or symbol has that name.
    pub const NOT_FOUND: CudaError = CudaError(500);
    /// `CUDA_ERROR_NOT_READY`: the work is not done yet.
    pub const NOT_READY: CudaError = CudaError(600);
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`: a kernel reached outside its memory.
    pub const ILLEGAL_ADDRESS: CudaError = CudaError(700);
    /// `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES`: too few registers, or too little shared memory.
    pub const LAUNCH_OUT_OF_RESOURCES: CudaError = CudaError(701);
    /// `CUDA_ERROR_ASSERT`: an assertion in a kernel failed.
    pub const ASSERT: CudaError = CudaError(710);
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`: a kernel met an instruction that cannot be
    /// executed.
    pub const ILLEGAL_INSTRUCTION: CudaError = CudaError(715);
    /// `CUDA_ERROR_MISALIGNED_ADDRESS`: an address is no multiple of the access size.
    pub const MISALIGNED_ADDRESS: CudaError = CudaError(716);
    /// `CUDA_ERROR_LAUNCH_FAILED`: a kernel ended abnormally.
    pub const LAUNCH_FAILED: CudaError = CudaError(719);
    /// `CUDA_ERROR_NOT_SUPPORTED`: this device or driver cannot do it.
    pub const NOT_SUPPORTED: CudaError = CudaError(801);

    /// `CUDA_ERROR_CONTEXT_IS_DESTROYED`: the context that is current is gone.
    pub const CONTEXT_IS_DESTROYED: CudaError = CudaError(709);
    /// `CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE`: not all blocks fit at once.
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: CudaError = CudaError(720);
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED`: the devices have no link.
    pub const PEER_ACCESS_UNSUPPORTED: CudaError = CudaError(217);
    /// `CUDA_ERROR_INVALID_GRAPHICS_CONTEXT`: no context of OpenGL is current.
    pub const INVALID_GRAPHICS_CONTEXT: CudaError = CudaError(219);
    /// `CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY`: contexts cannot share multiprocessors out.
    pub const UNSUPPORTED_EXEC_AFFINITY: CudaError = CudaError(224);
    /// `CUDA_ERROR_INVALID_HANDLE`: it was destroyed, or is another context's.
    pub const INVALID_HANDLE: CudaError = CudaError(400);
    /// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`
    pub const PEER_ACCESS_ALREADY_ENABLED: CudaError = CudaError(704);
    /// `CUDA_ERROR_PEER_ACCESS_NOT_ENABLED`
    pub const PEER_ACCESS_NOT_ENABLED: CudaError = CudaError(705);
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`: the call cannot be captured.
    pub const STREAM_CAPTURE_UNSUPPORTED: CudaError = CudaError(900);
    /// `CUDA_ERROR_STREAM_CAPTURE_UNJOINED`: a stream did not come back to a capture.
    pub const STREAM_CAPTURE_UNJOINED: CudaError = CudaError(904);
    /// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE`: the graphs differ in more than parameters.
    pub const GRAPH_EXEC_UPDATE_FAILURE: CudaError = CudaError(910);

    /// The name in `cuda.h`, up to CUDA 13.4; `None` for numbers newer than that.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .binary_search_by_key(&self.0, |(number, _)| *number)
            .ok()
            .map(|at| NAMES[at].1)
    }

    /// Whether the context is lost: every later call in it returns an error too,
    /// and only a new context (on a GPU mostly a new process) helps.
    pub fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721)
    }

    /// Whether it tells of work that was queued earlier: any later call may
    /// return it, and is not to blame. [Check mode](crate::driver::Context::set_check_mode)
    /// names the launch.
    pub fn is_asynchronous(self) -> bool {
        matches!(
            self.0,
            214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 911
        )
    }

    /// What the user can do about it, where there is something.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self.0 {
            2 => "free device memory, or ask for less",
            3 => "call `Driver::nvidia` or `Driver::cpu` before anything else",
            34 => "a toolkit's stub library was opened: put the driver's own libcuda.so.1 first",
            35 | 803 => "the driver is older than the user-space libraries: update the driver",
            46 => "another process holds the device, or its compute mode forbids sharing",
            36 => "the entry needs a newer driver",
            100 => "no CUDA device is visible: see CUDA_VISIBLE_DEVICES, or use the CPU device",
            101 => "there is no device of that number",
            200 => "the image is not PTX, a cubin or a fatbin that this driver knows",
            201 | 709 => "the context is gone, or none is current",
            209 => "the image has no code for this GPU and no PTX to make it from",
            214 | 220 => "the hardware reported an error: see the system log",
            217 => "the two devices have no link, or the system forbids it",
            218 => "the PTX does not compile: see the log, or run ptxcheck on it",
            219 => "make the OpenGL context current on this thread first",
            221 => "the driver's PTX compiler library (libnvidia-ptxjitcompiler) is missing",
            222 => "the PTX is newer than the driver: lower its `.version`, or update the driver",
            223 => "CUDA_DISABLE_PTX_JIT forbids compilation: give a binary for this GPU",
            400 => "a handle was destroyed, or belongs to another context",
            500 => "there is no kernel, variable or symbol of that name",
            600 => "the work is not done yet",
            700 => "a kernel reached outside the memory it was given",
            701 => {
                "the block needs more registers or shared memory than there are: launch smaller blocks, or set `.maxntid`"
            }
            702 => "the kernel ran longer than the display's time limit allows",
            704 => "it is enabled already",
            705 => "enable peer access first",
            710 => "an assertion in a kernel failed: its text is on the standard error output",
            715 => "the kernel's code met an instruction this GPU does not have",
            716 => "a kernel reached an address that is no multiple of the access size",
            717 => "a kernel used an address of one space in an instruction for another",
            719 => "a kernel ended abnormally: a bad address, a trap or a stack overflow",
            720 => "not all blocks of a cooperative launch fit on the device at once",
            801 => "this device or driver cannot do that",
            802 => "the system is not ready: is the fabric manager running?",
            804 => "forward compatibility is not supported on this GPU: update the driver",
            900 | 901 => {
                "a call that waits, or otherwise cannot be in a graph, was made during a capture"
            }
            904 => "let the captured stream wait for an event of each stream it was forked into",
            905 => "in a capture only events of the capture can be waited for",
            906 => {
                "make the captured stream non-blocking, or leave the default stream alone meanwhile"
            }
            912 => "the cluster is larger than the device allows",
            _ => return None,
        })
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "error {} (newer than this program knows)", self.0),
        }
    }
}

impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Sorted by number.
static NAMES: &[(i32, &str)] = &[
    (0, "CUDA_SUCCESS"),
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (4, "CUDA_ERROR_DEINITIALIZED"),
    (5, "CUDA_ERROR_PROFILER_DISABLED"),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED"),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED"),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED"),
    (34, "CUDA_ERROR_STUB_LIBRARY"),
    // Of the runtime API; wrappers and containers pass it on.
    (35, "cudaErrorInsufficientDriver"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (47, "CUDA_ERROR_MULTICAST_RESOURCE_FULL"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED"),
    (200, "CUDA_ERROR_INVALID_IMAGE"),
    (201, "CUDA_ERROR_INVALID_CONTEXT"),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT"),
    (205, "CUDA_ERROR_MAP_FAILED"),
    (206, "CUDA_ERROR_UNMAP_FAILED"),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED"),
    (208, "CUDA_ERROR_ALREADY_MAPPED"),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED"),
    (211, "CUDA_ERROR_NOT_MAPPED"),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY"),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER"),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT"),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE"),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    (218, "CUDA_ERROR_INVALID_PTX"),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT"),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY"),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC"),
    (226, "CUDA_ERROR_CONTAINED"),
    (227, "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION"),
    (300, "CUDA_ERROR_INVALID_SOURCE"),
    (301, "CUDA_ERROR_FILE_NOT_FOUND"),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND"),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (400, "CUDA_ERROR_INVALID_HANDLE"),
    (401, "CUDA_ERROR_ILLEGAL_STATE"),
    (402, "CUDA_ERROR_LOSSY_QUERY"),
    (500, "CUDA_ERROR_NOT_FOUND"),
    (600, "CUDA_ERROR_NOT_READY"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING"),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (710, "CUDA_ERROR_ASSERT"),
    (711, "CUDA_ERROR_TOO_MANY_PEERS"),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (800, "CUDA_ERROR_NOT_PERMITTED"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    (806, "CUDA_ERROR_MPS_RPC_FAILURE"),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY"),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED"),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH"),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    (907, "CUDA_ERROR_CAPTURED_EVENT"),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    (909, "CUDA_ERROR_TIMEOUT"),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED"),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
    (916, "CUDA_ERROR_KEY_ROTATION"),
    (917, "CUDA_ERROR_STREAM_DETACHED"),
    (918, "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE"),
    (919, "CUDA_ERROR_FABRIC_NOT_READY"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMES.is_sorted_by_key(|(number, _)| *number));
        assert_eq!(CudaError(2).name(), Some("CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(CudaError(0).name(), Some("CUDA_SUCCESS"));
        assert_eq!(
            CudaError(700).to_string(),
            "CUDA_ERROR_ILLEGAL_ADDRESS (700)"
        );
    }

    #[test]
    fn unknown_numbers_stay() {
        assert_eq!(CudaError(987654).name(), None);
        assert!(CudaError(987654).to_string().contains("987654"));
        assert_eq!(CudaError(-5).name(), None);
    }

    #[test]
    fn sticky_ones_are_told_apart() {
        assert!(CudaError::ILLEGAL_ADDRESS.is_sticky());
        assert!(CudaError::ASSERT.is_sticky());
        assert!(!CudaError::OUT_OF_MEMORY.is_sticky());
        assert!(!CudaError::LAUNCH_OUT_OF_RESOURCES.is_sticky());
    }
}

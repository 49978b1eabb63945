//! Panics that must not cross into C.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function; returns `None` if it panicked.
///
/// The payload of the panic is dropped here. Its destructor may panic too, and what that panic
/// carries is leaked: nothing unwinds out of this call.
#[inline]
pub fn contain_panic<R>(function: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(function))
        .map_err(dispose)
        .ok()
}

#[cold]
fn dispose(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, with as many payloads of this kind.
    struct Bad(u32);

    impl Drop for Bad {
        fn drop(&mut self) {
            match self.0 {
                0 => panic!("expected in this test"),
                left => panic_any(Bad(left - 1)),
            }
        }
    }

    #[test]
    fn nothing_unwinds_out_of_it() {
        assert_eq!(contain_panic(|| 7), Some(7));
        assert_eq!(
            contain_panic::<()>(|| panic!("expected in this test")),
            None
        );
        for more in 0..3 {
            assert_eq!(contain_panic::<()>(|| panic_any(Bad(more))), None);
        }
    }
}

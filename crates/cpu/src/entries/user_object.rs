//! Objects of callers that graphs refer to.

use std::ffi::{c_uint, c_void};

use super::entry::entries;
use crate::state::graph;
use crate::state::handle::pointer;
use crate::state::status::{Result, Status};
use crate::state::user_object::{self, References};
use api::{CUgraph, CUhostFn, CUuserObject};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which must be given
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's references become the graph's
const MOVE: c_uint = 1;

fn check_count(count: c_uint) -> Result {
    match count {
        1..=0x7fff_ffff => Ok(()),
        _ => Err(Status::INVALID_VALUE.because("a number of references is 1 to INT_MAX")),
    }
}

entries! {
    fn cuUserObjectCreate(
        result: *mut CUuserObject,
        object: *mut c_void,
        destroy: CUhostFn,
        count: c_uint,
        flags: c_uint,
    ) {
        check_count(count)?;
        let destroy = destroy.ok_or_else(|| {
            Status::INVALID_VALUE.because("the function that destroys a user object is null")
        })?;
        if flags != NO_DESTRUCTOR_SYNC || result.is_null() {
            return Err(Status::INVALID_VALUE
                .because("a user object has the flag CU_USER_OBJECT_NO_DESTRUCTOR_SYNC (1)"));
        }
        result.put(pointer(user_object::create(object, destroy, count)))
    }

    fn cuUserObjectRetain(object: CUuserObject, count: c_uint) {
        check_count(count)?;
        user_object::find(object.addr())?.retain(count);
        Ok(())
    }

    fn cuUserObjectRelease(object: CUuserObject, count: c_uint) {
        check_count(count)?;
        user_object::find(object.addr())?.release(count)
    }

    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) {
        check_count(count)?;
        if flags > MOVE {
            return Err(Status::INVALID_VALUE.because("unknown flags of references of a graph"));
        }
        let graph = graph::find(graph.addr())?;
        let object = user_object::find(object.addr())?;
        if flags != MOVE {
            object.retain(count);
        }
        graph.refer(References { object, count });
        Ok(())
    }

    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) {
        check_count(count)?;
        let object = user_object::find(object.addr())?;
        graph::find(graph.addr())?.give_up(&object, count)
    }
}

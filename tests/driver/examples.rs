//! The samples of the guide's driver chapter, run.

use crate::support::device;

#[path = "../../examples/guide_context.rs"]
#[allow(dead_code)]
mod guide_context;
#[path = "../../examples/guide_launch.rs"]
#[allow(dead_code)]
mod guide_launch;
#[path = "../../examples/guide_module.rs"]
#[allow(dead_code)]
mod guide_module;
#[path = "../../examples/guide_streams.rs"]
#[allow(dead_code)]
mod guide_streams;

#[test]
fn contexts() {
    guide_context::run(device()).unwrap();
}

#[test]
fn modules() {
    guide_module::run(device()).unwrap();
}

#[test]
fn launches() {
    guide_launch::run(device()).unwrap();
}

#[test]
fn streams_and_events() {
    guide_streams::run(device()).unwrap();
}

//! The samples of the guide's driver chapter, run.

use crate::support::{alone, device, isolated};

#[cfg(all(feature = "build", feature = "cache"))]
#[path = "../../examples/build_sgemm.rs"]
#[allow(dead_code)]
mod build_sgemm;
#[cfg(feature = "build")]
#[path = "../../examples/count_branches.rs"]
#[allow(dead_code)]
mod count_branches;
#[path = "../../examples/guide_context.rs"]
#[allow(dead_code)]
mod guide_context;
#[path = "../../examples/guide_devices.rs"]
#[allow(dead_code)]
mod guide_devices;
#[path = "../../examples/guide_launch.rs"]
#[allow(dead_code)]
mod guide_launch;
#[path = "../../examples/guide_memory.rs"]
#[allow(dead_code)]
mod guide_memory;
#[path = "../../examples/guide_module.rs"]
#[allow(dead_code)]
mod guide_module;
#[path = "../../examples/guide_opengl.rs"]
#[allow(dead_code)]
pub mod guide_opengl;
#[path = "../../examples/guide_shared.rs"]
#[allow(dead_code)]
mod guide_shared;
#[path = "../../examples/guide_streams.rs"]
#[allow(dead_code)]
mod guide_streams;

#[path = "../../examples/guide_surfaces.rs"]
#[allow(dead_code)]
mod guide_surfaces;
#[path = "../../examples/guide_textures.rs"]
#[allow(dead_code)]
mod guide_textures;

#[test]
fn contexts() {
    guide_context::run(device()).unwrap();
}

#[test]
fn modules() {
    guide_module::run(device()).unwrap();
}

/// Alone: two vectors that are pinned can have a page in common.
#[test]
fn memory() {
    isolated("examples::memory", &[], || {
        guide_memory::run(device()).unwrap();
    });
}

#[test]
fn launches() {
    guide_launch::run(device()).unwrap();
}

#[test]
fn streams_and_events() {
    alone();
    guide_streams::run(device()).unwrap();
}

#[test]
fn shared_memory() {
    guide_shared::run(device()).unwrap();
}

#[test]
fn several_devices() {
    isolated(
        "examples::several_devices",
        &[("PTXKIT_CPU_DEVICES", "2")],
        || {
            guide_devices::run(device()).unwrap();
        },
    );
}

#[test]
fn opengl() {
    isolated("examples::opengl", &[], || {
        guide_opengl::run(device()).unwrap();
    });
}

#[test]
fn textures() {
    guide_textures::run(device()).unwrap();
}

#[test]
fn surfaces_layers_and_cubemaps() {
    guide_surfaces::run(device()).unwrap();
}

#[cfg(all(feature = "build", feature = "cache"))]
#[test]
fn products_by_kernels_that_are_built() {
    build_sgemm::run(device(), 64).unwrap();
}

#[cfg(feature = "build")]
#[test]
fn branches_of_a_kernel_are_counted() {
    count_branches::run(device()).unwrap();
}

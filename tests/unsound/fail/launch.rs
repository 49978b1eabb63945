//! Raw arguments: an address as a number, or more elements than there are.
use ptxkit::driver::{Graph, GraphExec, GraphNode, Kernel, LaunchConfig, LaunchOptions};
use ptxkit::driver::{ParamBuffer, Stream};
use ptxkit::launch;

fn launches(kernel: &Kernel, stream: &Stream, victim: &mut u64) {
    let (config, options) = (LaunchConfig::default(), LaunchOptions::new());
    let address = std::ptr::from_mut(victim).expose_provenance() as u64;
    let _ = kernel.launch(config, stream, (address,)); //~ E0133
    let _ = kernel.launch_cooperative(config, stream, (address,)); //~ E0133
    let _ = kernel.launch_with(config, &options, stream, (address,)); //~ E0133
    let _ = kernel.launch_buffer(config, stream, ParamBuffer::new().push(address)); //~ E0133
    let _ = kernel.launch_bytes(config, stream, &address.to_le_bytes()); //~ E0133
    let _ = launch!(kernel[1, 1, stream](address)); //~ E0133
}

fn nodes(graph: &mut Graph, exec: &mut GraphExec, node: GraphNode, kernel: &Kernel) {
    let _ = graph.add_kernel(&[], kernel, LaunchConfig::default(), (0_u64,)); //~ E0133
    let _ = exec.set_kernel(node, kernel, LaunchConfig::default(), (0_u64,)); //~ E0133
}

fn main() {}

//! Green contexts, and the multiprocessors they have.

use std::collections::BTreeSet;

use ptxkit::driver::{
    Context, DeviceAttribute, DeviceBuffer, Error, LaunchConfig, Module, SmResource, SmSplit,
    Stream,
};

use crate::support::{alone, context, device};

/// Each block writes the number of its multiprocessor.
const WHERE: &str = ".version 7.0 .target sm_50 .address_size 64
.visible .entry where(.param .u64 places) {
    .reg .b32 %block, %place; .reg .b64 %to;
    ld.param.u64 %to, [places];
    mov.u32 %block, %ctaid.x;
    mov.u32 %place, %smid;
    mad.wide.u32 %to, %block, 4, %to;
    st.global.u32 [%to], %place;
    ret; }";

/// The device's multiprocessors, on drivers since CUDA 12.5.
fn multiprocessors() -> Option<SmResource> {
    let api = device().driver().api();
    api.cuGreenCtxStreamCreate?;
    Some(device().sm_resource().unwrap())
}

/// The smallest groups that there are.
fn groups(all: &SmResource) -> (Vec<SmResource>, SmResource) {
    all.split(2, all.least().max(1), SmSplit::Default).unwrap()
}

#[test]
fn multiprocessors_are_divided() {
    alone();
    let Some(all) = multiprocessors() else {
        return;
    };
    let count: u32 = device()
        .attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)
        .unwrap();
    assert_eq!(all.count(), count);
    let (groups, rest) = groups(&all);
    assert!((1..=2).contains(&groups.len()));
    let sum: u32 = groups.iter().map(SmResource::count).sum();
    assert_eq!(sum + rest.count(), all.count());
    assert!(groups.iter().all(|group| group.count() > 0));
    assert!(groups.iter().all(|group| group.count() >= all.least()));
    all.split(1, all.count() + 1, SmSplit::Default).unwrap_err();
}

#[test]
fn kernels_run_on_a_part() {
    alone();
    let Some(all) = multiprocessors() else {
        return;
    };
    let _primary = context();
    let (groups, _) = groups(&all);
    let context = Context::green(&groups[..1]).unwrap();
    assert_eq!(context.sm_resource().unwrap().count(), groups[0].count());
    assert!(context.raw_green().is_some());
    let kernel = Module::load(&context, WHERE.as_bytes()).unwrap();
    let kernel = kernel.kernel("where").unwrap();
    let stream = Stream::of_green(&context, 0).unwrap();
    assert_eq!(stream.flags().unwrap(), 1);
    const BLOCKS: u32 = 4096;
    let places = DeviceBuffer::<u32>::zeroed(&context, BLOCKS as usize).unwrap();
    context.synchronize().unwrap();
    let config = LaunchConfig::for_elements(BLOCKS * 32, 32);
    unsafe { kernel.launch(config, &stream, (&places,)) }.unwrap();
    stream.synchronize().unwrap();
    let used: BTreeSet<_> = places.to_vec().unwrap().into_iter().collect();
    assert!(used.len() <= groups[0].count() as usize, "{used:?}");

    // A stream that is made as in any context runs there too.
    let stream = Stream::non_blocking(&context).unwrap();
    unsafe { kernel.launch(config, &stream, (&places,)) }.unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn green_contexts_follow_one_another() {
    alone();
    let Some(all) = multiprocessors() else {
        return;
    };
    let (groups, _) = groups(&all);
    let all_groups: Vec<_> = groups
        .iter()
        .map(|group| Context::green(std::slice::from_ref(group)).unwrap())
        .collect();
    for context in &all_groups {
        let stream = Stream::of_green(context, -1).unwrap();
        let mut buffer = DeviceBuffer::<u32>::new(context, 100).unwrap();
        buffer.fill_async(7, &stream).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
    }
    drop(all_groups);
    drop(Context::green(&groups[..1]).unwrap());
    context().synchronize().unwrap();
}

#[test]
fn what_is_no_part_is_refused() {
    let none = Context::green(&[]).unwrap_err();
    assert!(matches!(none, Error::Length { given: 0, .. }), "{none}");
    let context = context();
    assert_eq!(context.raw_green(), None);
    let error = Stream::of_green(&context, 0).unwrap_err();
    assert!(matches!(error, Error::NotGreen), "{error}");
}

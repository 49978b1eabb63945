//! Modules of many kernels.

/// A module of `count` kernels of about 7 KB each, no two alike.
pub fn module(count: u32) -> String {
    let kernel = include_str!("service.ptx");
    let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    for number in 0..count {
        text += &kernel
            .replace("NUMBER", &number.to_string())
            .replace("0f4AE99762", &format!("0f4AE9{number:04X}"));
    }
    text
}

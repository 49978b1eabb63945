//! A structure whose bytes are not all there, or mean something on the host.
ptxkit::device_param! { //~ E0277
    struct Padded { pair: (u8, u32) }
}

ptxkit::device_param! { //~ E0277
    struct Pointing { name: &'static str }
}

fn main() {}

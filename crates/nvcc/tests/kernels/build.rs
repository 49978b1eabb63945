//! Compiles the kernels, where there is an nvcc. One that `NVCC` names must be there.

fn main() -> Result<(), ptxkit_nvcc::Error> {
    println!("cargo::rustc-check-cfg=cfg(nvcc)");
    let nvcc = ptxkit_nvcc::Nvcc::new().architecture("compute_80");
    match nvcc.compile("src/physics.cu") {
        Ok(_) => println!("cargo::rustc-cfg=nvcc"),
        Err(ptxkit_nvcc::Error::NoNvcc { .. }) if std::env::var_os("NVCC").is_none() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

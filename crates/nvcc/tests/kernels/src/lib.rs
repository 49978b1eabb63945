//! Test of `kernels!` with CUDA C++ that the build script has compiled.

#[cfg(all(test, nvcc))]
mod tests {
    use ptxkit::DeviceRepr;
    use ptxkit::cache::{Cache, Policy};
    use ptxkit::driver::{Context, DeviceBuffer, Float2, LaunchConfig, Selection, Stream, select};
    use ptxkit::loader::Loader;

    #[derive(Clone, Copy, Debug, PartialEq, DeviceRepr)]
    #[repr(C)]
    struct Body {
        x: f32,
        y: f32,
        z: f32,
        mass: f32,
    }

    #[derive(Clone, Copy, DeviceRepr)]
    #[repr(C)]
    struct Wind {
        seconds: f32,
        steps: u32,
        force: Float2,
    }

    ptxkit::kernels! {
        mod physics source = "physics.cu";
        unsafe extern {
            // SAFETY: both stay below the lengths.
            safe fn blow(bodies: &mut [Body], wind: Wind);
            #[link_name = "_Z5totalIfEvPKT_mPS0_m"]
            safe fn total(values: &[f32], sum: &mut [f32]);
        }
    }

    #[test]
    fn kernels_of_cuda_cpp_take_structures_and_slices() {
        let device = std::env::var("PTXKIT_DEVICE").unwrap_or("cpu".into());
        let device = select(device.parse::<Selection>().unwrap()).unwrap().device;
        let context = Context::primary(&device).unwrap();
        let loader = Loader::new(context.clone(), Cache::new(Policy::disabled()));
        let kernels = physics::load(&loader).unwrap();
        let stream = Stream::non_blocking(&context).unwrap();

        let body = |mass| Body {
            x: 0.0,
            y: 1.0,
            z: 2.0,
            mass,
        };
        let bodies: Vec<Body> = (1..=1000).map(|number| body(number as f32)).collect();
        let mut bodies = DeviceBuffer::from_host(&stream, &bodies).unwrap();
        let wind = Wind {
            seconds: 0.5,
            steps: 4,
            force: Float2 { x: 1.0, y: 2.0 },
        };
        let config = LaunchConfig::for_elements(1000, 128);
        kernels.blow(config, &stream, &mut bodies, wind).unwrap();
        let found = bodies.to_host(&stream).unwrap();
        let moved = |x, y, mass| Body { x, y, ..body(mass) };
        assert_eq!(found[0], moved(2.0, 5.0, 1.0));
        assert_eq!(found[511], moved(2.0 / 512.0, 1.0 + 4.0 / 512.0, 512.0));

        let values = DeviceBuffer::from_host(&stream, &[0.5_f32; 100]).unwrap();
        let mut sum = DeviceBuffer::<f32>::zeroed_async(&stream, 1).unwrap();
        let one = LaunchConfig::default();
        kernels.total(one, &stream, &values, &mut sum).unwrap();
        assert_eq!(sum.to_host(&stream).unwrap(), [50.0]);
    }
}

#[cfg(all(test, not(nvcc)))]
mod tests {
    #[test]
    #[ignore = "no nvcc: scripts/nvcc cargo test -p ptxkit-nvcc-kernels"]
    fn kernels_of_cuda_cpp_take_structures_and_slices() {}
}

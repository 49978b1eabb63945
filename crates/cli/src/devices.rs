//! `ptxkit devices`: lists the devices of this machine.

use serde::Serialize;

use ptxkit::driver::{Device, Driver, Error};
use terminal::failure::Failure;
use terminal::output::{Format, Lines, json_line, print};

#[derive(Serialize)]
struct Listed {
    /// The value for `--device`.
    device: String,
    name: String,
    target: String,
    memory_bytes: usize,
    driver: String,
}

pub fn list(format: Format) -> Result<(), Failure> {
    let mut found = Vec::new();
    let nvidia = Driver::nvidia();
    if let Ok(driver) = &nvidia {
        for device in driver.devices().map_err(Failure::new)? {
            let name = format!("nvidia:{}", device.ordinal());
            found.push(describe(name, &device).map_err(Failure::new)?);
        }
    }
    let cpu = Driver::cpu().and_then(|driver| describe("cpu".into(), &driver.device(0)?));
    found.push(cpu.map_err(Failure::new)?);
    match format {
        Format::Json => print(&json_line(&found)),
        Format::Text => {
            let mut lines = Lines::default();
            for Listed {
                device,
                name,
                target,
                memory_bytes,
                driver,
            } in &found
            {
                let memory = *memory_bytes as f64 / f64::from(1 << 30);
                lines.add(
                    device,
                    format!("{name}, {target}, {memory:.1} GiB, {driver}"),
                );
            }
            if let Err(error) = nvidia {
                // Without the help: the CPU device is listed.
                lines.add(
                    "nvidia",
                    match error {
                        Error::DriverMissing(missing) => missing.reasons(),
                        other => other.to_string(),
                    },
                );
            }
            print(&lines.0);
        }
    }
    Ok(())
}

fn describe(name: String, device: &Device) -> Result<Listed, Error> {
    Ok(Listed {
        device: name,
        name: device.name()?,
        target: device.target()?,
        memory_bytes: device.total_memory()?,
        driver: device.driver().describe(),
    })
}

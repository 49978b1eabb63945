//! `ptxkit devices`: lists the devices of this machine, or all that a bug report should say.

use serde::Serialize;

use ptxkit::cache::{Environment, Policy};
use ptxkit::driver::{Device, DeviceReport, Driver, DriverKind, DriverReport, Error};
use serde_json::{Value, json};
use terminal::failure::Failure;
use terminal::output::{Escaped, Format, Lines, json_line, print};

/// The address of a remote cache, with what its service asks for.
const REMOTE: &str = "PTXKIT_REMOTE";

#[derive(Serialize)]
struct Listed {
    /// The value for `--device`.
    device: String,
    name: String,
    target: String,
    memory_bytes: usize,
    driver: String,
}

/// The arguments of `ptxkit devices`.
#[derive(Debug, clap::Args)]
pub struct DevicesArgs {
    /// Everything that a bug report should say: drivers, limits, what works here and what does
    /// not and why, and the variables that are set; `--verbose` prints it too
    #[arg(long)]
    report: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lists the devices, or prints the report.
///
/// # Errors
/// No driver that is there answers, where the devices are listed.
pub fn run(args: &DevicesArgs, is_verbose: bool) -> Result<(), Failure> {
    if args.report || is_verbose {
        report(args.format)
    } else {
        list(args.format)
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let gpus = |driver: Driver| -> Result<Vec<Listed>, Error> {
        let devices = driver.devices()?;
        let name = |device: &Device| format!("nvidia:{}", device.ordinal());
        devices
            .iter()
            .map(|device| describe(name(device), device))
            .collect()
    };
    let cpu = |driver: Driver| Ok(vec![describe("cpu".into(), &driver.device(0)?)?]);
    // One that fails hides no other.
    let nvidia = Driver::nvidia().and_then(gpus);
    let cpu = Driver::cpu().and_then(cpu);
    let found: Vec<&Listed> = nvidia.iter().chain(&cpu).flatten().collect();
    if let (true, Err(error)) = (found.is_empty(), &cpu) {
        return Err(Failure::new(error.clone()));
    }
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
            } in found
            {
                let memory = *memory_bytes as f64 / f64::from(1 << 30);
                lines.add(
                    device,
                    format!("{name}, {target}, {memory:.1} GiB, {driver}"),
                );
            }
            // Without the help: others are listed.
            for (driver, result) in [("nvidia", &nvidia), ("cpu", &cpu)] {
                if let Err(error) = result {
                    lines.add(driver, reasons(error));
                }
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

/// Why a driver is not there.
fn reasons(error: &Error) -> String {
    match error {
        Error::DriverMissing(missing) => missing.reasons(),
        other => other.to_string(),
    }
}

fn report(format: Format) -> Result<(), Failure> {
    // What one driver does not answer is part of the report.
    let [nvidia, cpu] =
        [Driver::nvidia(), Driver::cpu()].map(|driver| driver.and_then(|driver| driver.report()));
    let why = |result: &Result<DriverReport, Error>| result.as_ref().err().map(reasons);
    let policy = Policy::from_environment(&Environment::read());
    let folder = policy.path().filter(|_| policy.enabled());
    let folder = folder.map(|folder| folder.to_string_lossy().into_owned());
    let mut variables: Vec<(String, String)> = std::env::vars_os()
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with("CUDA_") || name.starts_with("PTXKIT_"))
        .map(|(name, value)| match name.as_str() {
            REMOTE => (name, "not shown, as it may hold a password".to_owned()),
            _ => (name, value),
        })
        .collect();
    variables.sort();
    let drivers = nvidia.iter().chain(&cpu);
    match format {
        Format::Json => print(&json_line(&json!({
            "ptxkit": env!("CARGO_PKG_VERSION"),
            "nvidia_missing": why(&nvidia),
            "cpu_missing": why(&cpu),
            "drivers": drivers.map(json_of).collect::<Vec<_>>(),
            "cache": folder,
            "variables": variables.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        }))),
        Format::Text => {
            let mut lines = Lines::default();
            lines.add("ptxkit", env!("CARGO_PKG_VERSION"));
            for (driver, result) in [("nvidia", &nvidia), ("cpu", &cpu)] {
                match result {
                    Ok(_) => {}
                    Err(error @ Error::DriverMissing(_)) => {
                        lines.add(driver, format!("not found: {}", reasons(error)));
                    }
                    Err(error) => lines.add(driver, format!("fails: {error}")),
                }
            }
            for driver in drivers {
                text_of(driver, &mut lines);
            }
            lines.add("cache", folder.unwrap_or_else(|| "off".to_owned()));
            for (name, value) in variables {
                lines.0 += &format!("{}={}\n", Escaped::new(name), Escaped::new(value));
            }
            print(&lines.0);
        }
    }
    Ok(())
}

/// The value for `--device`.
fn name_of(driver: &DriverReport, device: &DeviceReport) -> String {
    match driver.kind {
        DriverKind::Cpu => "cpu".to_owned(),
        _ => format!("nvidia:{}", device.ordinal),
    }
}

fn text_of(driver: &DriverReport, lines: &mut Lines) {
    let (major, minor) = (driver.version / 1000, driver.version % 1000 / 10);
    lines.add(
        "driver",
        format!(
            "{} (CUDA {major}.{minor}), {} of {} entries",
            driver.kind,
            driver.entries - driver.missing.len(),
            driver.entries
        ),
    );
    for device in &driver.devices {
        let limits = &device.limits;
        let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
        lines.add(&name_of(driver, device), &device.name);
        let about = [
            format!("{}, {:.1} GiB of memory", device.target, gib(device.memory)),
            format!(
                "{} multiprocessors of {} MHz",
                device.multiprocessors,
                device.clock.hertz() / 1_000_000
            ),
            format!(
                "blocks of up to {} threads, with {} bytes of shared memory, {} if asked for",
                limits.threads_per_block, limits.shared_per_block, limits.shared_per_block_optin
            ),
        ];
        for line in about {
            lines.add("", line);
        }
        if !device.peers.is_empty() {
            let peers: Vec<String> = device.peers.iter().map(u32::to_string).collect();
            lines.add("", format!("reaches the memory of {}", peers.join(", ")));
        }
        let has = device.capabilities.iter().filter(|one| one.is_supported());
        let has: Vec<&str> = has.map(|one| one.what).collect();
        lines.add("has", has.join(", "));
        for one in &device.capabilities {
            if let Some(missing) = one.missing {
                lines.add("lacks", format!("{}: {missing}", one.what));
            }
        }
    }
}

fn json_of(driver: &DriverReport) -> Value {
    let devices: Vec<Value> = driver
        .devices
        .iter()
        .map(|device| {
            let capabilities = device.capabilities.iter().map(|one| {
                json!({
                    "what": one.what,
                    "supported": one.is_supported(),
                    "why_not": one.missing.map(|missing| missing.to_string()),
                })
            });
            json!({
                "device": name_of(driver, device),
                "name": device.name,
                "target": device.target,
                "memory_bytes": device.memory,
                "multiprocessors": device.multiprocessors,
                "clock_hertz": device.clock.hertz(),
                "threads_per_block": device.limits.threads_per_block,
                "shared_per_block": device.limits.shared_per_block,
                "shared_per_block_optin": device.limits.shared_per_block_optin,
                "peers": device.peers,
                "capabilities": capabilities.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "driver": driver.kind.to_string(),
        "cuda": driver.version,
        "entries": driver.entries,
        "missing_entries": driver.missing.iter().map(|entry| entry.name).collect::<Vec<_>>(),
        "devices": devices,
    })
}

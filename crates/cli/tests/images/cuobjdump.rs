//! What cuobjdump says of a file, in a form that can be compared.

use std::collections::HashMap;
use std::io::Read;

use ptxkit::image::CubinContents;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// `ELF sm_90`, `PTX sm_80`
    pub list: Vec<String>,
    pub resources: Vec<Resources>,
    pub ptx: Vec<String>,
}

/// What a cubin takes of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Each with what it takes: `GLOBAL:8`, `CONSTANT[3]:64`.
    common: Vec<String>,
    kernels: Vec<(String, Vec<String>)>,
}

impl Resources {
    pub fn of(contents: &CubinContents) -> Resources {
        let banks = |banks: &[(u8, u64)]| -> Vec<String> {
            banks
                .iter()
                .map(|(bank, size)| format!("CONSTANT[{bank}]:{size}"))
                .collect()
        };
        let mut common = banks(&contents.constant);
        common.push(format!("GLOBAL:{}", contents.global));
        common.sort();
        let kernels = contents.kernels.iter().map(|kernel| {
            let mut taken = banks(&kernel.constant);
            taken.push(format!("REG:{}", kernel.registers));
            taken.push(format!("STACK:{}", kernel.stack));
            taken.push(format!("SHARED:{}", kernel.shared));
            taken.push(format!("LOCAL:{}", kernel.local));
            taken.sort();
            (kernel.name.clone(), taken)
        });
        Resources {
            common,
            kernels: kernels.collect(),
        }
    }
}

/// Reads the output of `-lelf -lptx`.
pub fn list(output: &str) -> Vec<String> {
    let mut list = Vec::new();
    for line in output.lines() {
        let Some((kind, rest)) = line.split_once(" file ") else {
            continue;
        };
        let target = rest.rsplit('.').nth(1).expect("NAME.sm_90.cubin");
        list.push(format!("{kind} {target}"));
    }
    list
}

/// Reads the output of `-res-usage`.
pub fn resources(output: &str) -> Vec<Resources> {
    let mut found: Vec<Resources> = Vec::new();
    let taken = |line: &str| -> Vec<String> {
        let words = line.split_whitespace();
        // Textures are bindless since long.
        let unused = |word: &&str| {
            ["TEXTURE:", "SURFACE:", "SAMPLER:"]
                .iter()
                .any(|name| word.starts_with(name))
        };
        let mut words: Vec<String> = words
            .filter(|word| !unused(word))
            .map(str::to_owned)
            .collect();
        words.sort();
        words
    };
    for line in output.lines() {
        let line = line.trim();
        if line.starts_with("GLOBAL:") {
            found.push(Resources {
                common: taken(line),
                kernels: Vec::new(),
            });
        } else if let Some(name) = line.strip_prefix("Function ") {
            let kernels = &mut found.last_mut().expect("a cubin").kernels;
            kernels.push((name.trim_end_matches(':').to_owned(), Vec::new()));
        } else if line.starts_with("REG:") {
            let kernels = &mut found.last_mut().expect("a cubin").kernels;
            kernels.last_mut().expect("a kernel").1 = taken(line);
        }
    }
    // Functions that no host can launch are listed too; only kernels have parameters.
    for cubin in &mut found {
        cubin
            .kernels
            .retain(|(_, taken)| taken.iter().any(|what| what.starts_with("CONSTANT[0]:")));
    }
    found
}

/// What was recorded of the fixtures, by their names.
pub fn recorded() -> HashMap<String, Said> {
    let packed: &[u8] = include_bytes!("recorded.xz");
    let mut text = String::new();
    lzma_rust2::XzReader::new(packed, true)
        .read_to_string(&mut text)
        .expect("the recorded output is sound");
    let mut recorded: HashMap<String, Said> = HashMap::new();
    // The first section begins like all others, and the last ends like them.
    let text = format!("\n{}", text.strip_suffix('\n').unwrap_or(&text));
    for section in text.split("\n= ").skip(1) {
        let (head, output) = section.split_once('\n').expect("a line of its own");
        let (name, what) = head.split_once(' ').expect("NAME WHAT");
        let said = recorded.entry(name.to_owned()).or_default();
        match what {
            "list" => said.list = list(output),
            "resources" => said.resources = resources(output),
            _ => said.ptx.push(output.to_owned()),
        }
    }
    recorded
}

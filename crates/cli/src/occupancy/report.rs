//! The occupancy of one kernel, as text and as JSON.

use serde_json::{Value, json};

use super::chart;
use super::clusters::Clusters;
use super::kernels::{KernelResources, Registers};
use ptxkit::image::Target;
use ptxkit::occupancy::{Axis, BlockResources, Limit, Multiprocessor, Occupancy, Step};
use terminal::output::Escaped;

pub struct Report {
    pub kernel: KernelResources,
    pub target: Target,
    pub processor: &'static Multiprocessor,
    pub block: BlockResources,
    /// Where the number of threads comes from.
    pub threads_from: &'static str,
    pub registers: Registers,
    /// Bytes of static shared memory.
    pub fixed: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic: u32,
    pub occupancy: Occupancy,
    /// With `--cluster`.
    pub clusters: Option<Clusters>,
}

fn word(limit: Limit) -> &'static str {
    match limit {
        Limit::Warps => "warps",
        Limit::Blocks => "blocks",
        Limit::Registers => "registers",
        Limit::Shared => "shared memory",
        Limit::Barriers => "barriers",
        _ => "another limit",
    }
}

/// `1 block`, `2 blocks`
fn counted(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

impl Report {
    /// `6 blocks, 48 of 64 warps (75 %)`
    pub fn resident(&self, occupancy: &Occupancy) -> String {
        format!(
            "{}, {} of {} warps ({} %)",
            counted(occupancy.blocks, "block"),
            occupancy.warps,
            occupancy.of,
            occupancy.percent()
        )
    }

    /// `registers and shared memory`
    pub fn limits(&self) -> String {
        let words: Vec<&str> = self.occupancy.limits().map(word).collect();
        match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    pub fn text(&self) -> String {
        let kernel = Escaped::new(&self.kernel.name);
        let mut out = match self.kernel.place.as_str() {
            "" => format!("{kernel} on {}\n", self.target),
            place => format!("{kernel} ({}) on {}\n", Escaped::new(place), self.target),
        };
        let mut line = |name: &str, text: &str| {
            out += format!("  {name:<14}{text}").trim_end();
            out += "\n";
        };
        let BlockResources { threads, .. } = self.block;
        let warps = counted(self.block.warps(), "warp");
        let from = match self.threads_from {
            "given" => String::new(),
            "default" => "; the kernel declares no size, --block gives one".to_owned(),
            directive => format!(", of {directive}"),
        };
        line(
            "block",
            &format!("{}, {warps}{from}", counted(threads, "thread")),
        );
        line(
            "registers",
            &match self.registers {
                Registers::Exact(count) | Registers::Given(count) => format!("{count} a thread"),
                Registers::Estimated(count) => {
                    format!("about {count} a thread: an estimate from live values")
                }
                Registers::Unknown => "unknown, and not counted".to_owned(),
            },
        );
        let shared = match (self.fixed, self.dynamic) {
            (fixed, 0) => counted(fixed, "byte"),
            (fixed, dynamic) => format!("{fixed} bytes static, {dynamic} dynamic"),
        };
        let system = match self.processor.reserved {
            0 => String::new(),
            bytes => format!(", and {bytes} of the system"),
        };
        line("shared", &format!("{shared}{system}"));
        if self.block.barriers > 0 {
            line("barriers", &self.block.barriers.to_string());
        }
        if let Some(percent) = self.block.carveout {
            line("carveout", &format!("{percent} %"));
        }
        line("resident", &self.resident(&self.occupancy));
        line("limited by", &self.limits());
        let room = self.occupancy.room.iter().filter_map(|(limit, blocks)| {
            blocks.map(|blocks| format!("{} {blocks}", word(*limit)))
        });
        line("blocks by", &room.collect::<Vec<_>>().join(", "));
        if let Some(clusters) = &self.clusters {
            line("clusters", &clusters.text());
        }
        for (index, step) in self.steps().iter().enumerate() {
            let text = format!("{}: {}", self.change(step), self.resident(&step.occupancy));
            line(if index == 0 { "to have more" } else { "" }, &text);
        }
        if self.occupancy.blocks > 0 {
            let most = self.processor.most(&self.block);
            line(
                "as many with",
                &format!(
                    "up to {} registers, {} bytes of shared memory",
                    most.registers, most.shared
                ),
            );
        }
        for axis in Axis::ALL {
            out += "\n";
            out += &chart::text(self, axis);
        }
        out
    }

    /// What to change for more blocks, or more warps.
    fn steps(&self) -> Vec<Step> {
        let sizes = self.processor.other_sizes(&self.block);
        let next = self.processor.next_block(&self.block);
        next.into_iter()
            .chain(sizes.into_iter().flatten())
            .collect()
    }

    /// `2 registers fewer a thread (32)`
    fn change(&self, step: &Step) -> String {
        let (from, to) = (&self.block, &step.block);
        let mut parts = Vec::new();
        if from.threads != to.threads {
            parts.push(format!("blocks of {} threads", to.threads));
        }
        if from.registers != to.registers {
            let fewer = counted(from.registers - to.registers, "register");
            parts.push(format!("{fewer} fewer a thread ({})", to.registers));
        }
        if from.shared != to.shared {
            let fewer = counted(from.shared - to.shared, "byte");
            parts.push(format!("{fewer} fewer of shared memory ({})", to.shared));
        }
        if from.barriers != to.barriers {
            let fewer = counted(from.barriers - to.barriers, "barrier");
            parts.push(format!("{fewer} fewer ({})", to.barriers));
        }
        if from.carveout != to.carveout {
            parts.push("no carveout".to_owned());
        }
        parts.join(" and ")
    }

    pub fn json(&self) -> Value {
        let (registers, from) = match self.registers {
            Registers::Exact(count) => (Some(count), "cubin"),
            Registers::Estimated(count) => (Some(count), "estimate"),
            Registers::Given(count) => (Some(count), "given"),
            Registers::Unknown => (None, "unknown"),
        };
        let resident = |occupancy: &Occupancy| {
            json!({
                "blocks": occupancy.blocks,
                "warps": occupancy.warps,
                "percent": occupancy.percent(),
            })
        };
        let resources = |block: &BlockResources| {
            json!({
                "threads": block.threads,
                "registers": registers.map(|_| block.registers),
                "shared": block.shared,
                "barriers": block.barriers,
                "carveout": block.carveout,
            })
        };
        let key = |limit: Limit| word(limit).replace(' ', "_");
        let room = self.occupancy.room.iter();
        let room: serde_json::Map<String, Value> = room
            .map(|(limit, blocks)| (key(*limit), json!(blocks)))
            .collect();
        let steps = self.steps();
        let changes = steps.iter().map(|step| {
            json!({
                "block": resources(&step.block),
                "resident": resident(&step.occupancy),
            })
        });
        let most = self.processor.most(&self.block);
        let curve = |axis: Axis| -> Value {
            let curve = self.processor.curve(axis, &self.block);
            let points = curve
                .iter()
                .map(|point| json!([point.from, point.occupancy.blocks, point.occupancy.warps]));
            points.collect()
        };
        json!({
            "kernel": self.kernel.name,
            "place": self.kernel.place,
            "target": self.target.to_string(),
            "block": resources(&self.block),
            "threads_from": self.threads_from,
            "registers_from": from,
            "static_shared": self.fixed,
            "dynamic_shared": self.dynamic,
            "resident": resident(&self.occupancy),
            "most_warps": self.occupancy.of,
            "limited_by": self.occupancy.limits().map(key).collect::<Vec<_>>(),
            "blocks_by": room,
            "clusters": self.clusters.as_ref().map(Clusters::json),
            "changes": changes.collect::<Vec<_>>(),
            "as_many_with": { "registers": most.registers, "shared": most.shared },
            "curves": {
                "threads": curve(Axis::Threads),
                "registers": curve(Axis::Registers),
                "shared": curve(Axis::Shared),
            },
        })
    }
}

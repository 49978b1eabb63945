//! The clusters of `ptxkit occupancy --cluster`.

use serde_json::{Value, json};

use ptxkit::occupancy::{BLOCKS_IN_CLUSTERS, BlockResources, Multiprocessor, PORTABLE_CLUSTER};
use terminal::failure::Failure;

/// Multiprocessors of each GPC.
#[derive(Clone, Debug)]
pub struct Gpcs(Vec<u32>);

/// More than any device has.
const MULTIPROCESSORS: u32 = 4096;

/// Parses `2x18,5x16,8`: two GPCs of 18, five of 16 and one of 8.
pub fn gpcs(text: &str) -> Result<Gpcs, String> {
    let wrong = || "GPCs are expected as 2x18,5x16,8: how many, and the multiprocessors of each";
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, size) = part.split_once('x').unwrap_or(("1", part));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let (count, size) = number(count).zip(number(size)).ok_or_else(wrong)?;
        let room = MULTIPROCESSORS - all.iter().sum::<u32>();
        if size == 0 || count == 0 || count.checked_mul(size).is_none_or(|added| added > room) {
            return Err(format!(
                "a GPC has at least one multiprocessor, and a device at most {MULTIPROCESSORS}"
            ));
        }
        all.extend(std::iter::repeat_n(size, count as usize));
    }
    Ok(Gpcs(all))
}

/// What is resident where blocks are launched in clusters.
pub struct Clusters {
    /// Blocks of a cluster.
    size: u32,
    count: u32,
    /// Multiprocessors of the GPCs, and of those that are too small.
    multiprocessors: u32,
    unused: u32,
    /// Whether a multiprocessor has room for more blocks than it holds in clusters.
    is_capped: bool,
    /// Whether these GPCs are those of a device.
    is_device: bool,
}

/// What is calculated for if no GPCs are given.
const ONE_GPC: u32 = 16;

impl Clusters {
    pub fn new(
        processor: &Multiprocessor,
        block: &BlockResources,
        size: u32,
        gpcs: Option<&Gpcs>,
    ) -> Result<Clusters, Failure> {
        let all = gpcs.map_or(&[ONE_GPC][..], |gpcs| &gpcs.0);
        let count = processor.clusters(block, size, all).ok_or_else(|| {
            Failure::new(format!("sm_{} has no clusters", processor.number))
                .help("give --target sm_90 or a newer one, or leave out --cluster")
        })?;
        Ok(Clusters {
            size,
            count,
            multiprocessors: all.iter().sum(),
            unused: all.iter().filter(|gpc| **gpc < size).sum(),
            is_capped: processor.occupancy(block).blocks > BLOCKS_IN_CLUSTERS,
            is_device: gpcs.is_some(),
        })
    }

    /// `15 of 8 blocks on 132 multiprocessors; 8 of these are in GPCs of fewer than 8`
    pub fn text(&self) -> String {
        let Clusters {
            size,
            count,
            multiprocessors,
            unused,
            ..
        } = self;
        let blocks = if *size == 1 { "block" } else { "blocks" };
        let mut text = if self.is_device {
            format!("{count} of {size} {blocks} on {multiprocessors} multiprocessors")
        } else {
            format!(
                "{count} of {size} {blocks} in a GPC of {multiprocessors} multiprocessors; --gpcs gives \
             those of a device"
            )
        };
        if *unused > 0 {
            text += &format!("; {unused} of these are in GPCs of fewer than {size}");
        }
        if self.is_capped {
            text +=
                &format!("; a multiprocessor has at most {BLOCKS_IN_CLUSTERS} blocks in clusters");
        }
        if *size > PORTABLE_CLUSTER {
            text +=
                &format!("; more than {PORTABLE_CLUSTER} need NON_PORTABLE_CLUSTER_SIZE_ALLOWED");
        }
        text
    }

    pub fn json(&self) -> Value {
        json!({
            "size": self.size,
            "resident": self.count,
            "multiprocessors": self.multiprocessors,
            "is_capped": self.is_capped,
            "in_smaller_gpcs": self.unused,
            "of_device": self.is_device,
        })
    }
}

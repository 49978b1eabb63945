//! The optimizations of the compiler, by name. Each can be switched off with `PTXKIT_CPU_WITHOUT=NAME[,NAME]`,
//! and each use of one is an event of [`tracing`] with the field `optimization`, which
//! `scripts/optimizations` counts.

use std::sync::LazyLock;

const VARIABLE: &str = "PTXKIT_CPU_WITHOUT";

macro_rules! optimizations {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A transformation that makes code faster, and without which it is still right.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Optimization {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Optimization {
            const ALL: &[Optimization] = &[$(Optimization::$name,)+];

            fn name(self) -> &'static str {
                match self {
                    $(Optimization::$name => $text,)+
                }
            }
        }
    };
}

optimizations! {
    /// Numbers in place of `%ntid`.
    BlockSize = "block_size",
    /// A register for each live range of one.
    LiveRanges = "live_ranges",
    /// Sums in place of `or` of operands that have no bit in common.
    DisjointOr = "disjoint_or",
    /// Cheap values computed again behind a barrier.
    Rematerialize = "rematerialize",
    /// One register for a value with a constant stride from lane to lane.
    Affine = "affine",
    /// Two registers for an address with a constant stride from lane to lane.
    Extended = "extended",
    /// Addresses checked by their 32-bit index.
    Indexed = "indexed",
    /// One result for all lanes of a comparison, shift or mask of `%tid.x`.
    OfGroup = "of_group",
    /// A vector access where addresses turn out to be consecutive.
    Consecutive = "consecutive",
    /// One bounds check for accesses to shared memory at constant distances.
    Spans = "spans",
    /// Prefetches of loads in loops.
    Prefetch = "prefetch",
    /// Atomic operations on shared memory for all lanes with different addresses at once.
    VectorAtomics = "vector_atomics",
    /// Packed registers for groups that wait together at a barrier.
    PackedRegisters = "packed_registers",
    /// Each value computed once.
    ValueNumbering = "value_numbering",
    /// No mask of bits that are zero.
    KnownBits = "known_bits",
    /// Computations in front of the loop in which their operands do not change.
    Hoisting = "hoisting",
}

/// The optimizations that the environment switches off.
static WITHOUT: LazyLock<Vec<Optimization>> = LazyLock::new(|| {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let (found, unknown) = parse(&text);
    for name in unknown {
        let names: Vec<_> = Optimization::ALL.iter().map(|one| one.name()).collect();
        tracing::warn!("{VARIABLE}: {name} is unknown: use {}", names.join(", "));
    }
    found
});

fn parse(text: &str) -> (Vec<Optimization>, Vec<&str>) {
    let mut found = Vec::new();
    let mut unknown = Vec::new();
    for name in text.split(',').filter(|name| !name.is_empty()) {
        let mut all = Optimization::ALL.iter();
        match all.find(|one| one.name() == name) {
            Some(&one) => found.push(one),
            None => unknown.push(name),
        }
    }
    (found, unknown)
}

impl Optimization {
    /// Returns whether it is not switched off.
    pub(crate) fn is_on(self) -> bool {
        !WITHOUT.contains(&self)
    }

    /// Returns a place where it applies, and counts it, unless it is switched off.
    pub(crate) fn at<T>(self, place: Option<T>) -> Option<T> {
        let place = place.filter(|_| self.is_on());
        if place.is_some() {
            self.count();
        }
        place
    }

    /// Counts a use.
    pub(crate) fn count(self) {
        tracing::trace!(optimization = self.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let (found, unknown) = parse("spans,,affine,span");
        assert_eq!(found, [Optimization::Spans, Optimization::Affine]);
        assert_eq!(unknown, ["span"]);
    }
}

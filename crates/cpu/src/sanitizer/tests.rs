//! Accesses of threads in one block and in two, told in some order.

use super::*;

const SHARED: u64 = 0x1000;
const GLOBAL: u64 = 0x2000;

struct Launch {
    launch: LaunchSanitizer,
    value: u32,
}

impl Launch {
    fn new() -> Launch {
        let checks = Checks::parse("init, race,memory");
        Launch {
            launch: LaunchSanitizer::new(checks).unwrap(),
            value: 0,
        }
    }

    fn block(&self, number: u64) -> BlockSanitizer {
        let range = |start, length| Range { start, length };
        let arena = range(SHARED, 0x10000);
        let mut block = BlockSanitizer::new(4, arena, range(SHARED, 64), range(0x1800, 64));
        block.start(number);
        block
    }

    fn tell(
        &mut self,
        block: &mut BlockSanitizer,
        thread: u32,
        address: u64,
        access: Access,
    ) -> Option<Finding> {
        // Each write leaves another value.
        self.value += 0x0101_0101;
        let value = self.value;
        let access = observed(thread, address, access);
        block.observe(&self.launch, access, |_| value)
    }
}

#[derive(Clone, Copy)]
enum Access {
    Read(u32),
    Write(u32),
    Atomic,
}

const READ: Access = Access::Read(4);
const WRITE: Access = Access::Write(4);
const ATOMIC: Access = Access::Atomic;

fn observed(thread: u32, address: u64, access: Access) -> Observed {
    let (size, reads, writes) = match access {
        Access::Read(size) => (size, true, false),
        Access::Write(size) => (size, false, true),
        Access::Atomic => (4, true, true),
    };
    Observed {
        thread,
        address,
        size,
        line: thread + 1,
        reads,
        writes,
        strong: matches!(access, Access::Atomic),
        synchronizes: false,
    }
}

fn race(block: u64, thread: u32, wrote: bool) -> Option<Finding> {
    let line = thread + 1;
    let earlier = Earlier {
        block,
        thread,
        line,
    };
    Some(Finding::Race(earlier, wrote))
}

#[test]
fn threads_race_until_they_meet() {
    for address in [SHARED, GLOBAL] {
        let mut launch = Launch::new();
        let mut block = launch.block(0);
        assert_eq!(launch.tell(&mut block, 0, address, WRITE), None);
        assert_eq!(launch.tell(&mut block, 0, address, READ), None);
        assert_eq!(launch.tell(&mut block, 1, address, READ), race(0, 0, true));
        block.meet_all();
        assert_eq!(launch.tell(&mut block, 2, address, READ), None);
        // A write after a read of another.
        assert_eq!(
            launch.tell(&mut block, 3, address, WRITE),
            race(0, 2, false)
        );
    }
}

#[test]
fn some_threads_meet_at_a_barrier_of_their_own() {
    let mut launch = Launch::new();
    let mut block = launch.block(0);
    launch.tell(&mut block, 0, GLOBAL, WRITE);
    block.meet(&[0, 1].map(|thread| Arrived {
        thread,
        waits: true,
    }));
    assert_eq!(launch.tell(&mut block, 1, GLOBAL, READ), None);
    assert_eq!(launch.tell(&mut block, 2, GLOBAL, READ), race(0, 0, true));
}

#[test]
fn atomics_and_equal_values_do_not_race() {
    let mut launch = Launch::new();
    let mut block = launch.block(0);
    for thread in 0..4 {
        assert_eq!(launch.tell(&mut block, thread, GLOBAL, ATOMIC), None);
    }
    // A loop around `atom.cas` begins like this.
    assert_eq!(launch.tell(&mut block, 1, GLOBAL, READ), None);
    assert_eq!(launch.tell(&mut block, 2, GLOBAL, WRITE), race(0, 3, true));
    block.meet_all();
    for thread in 0..4 {
        let access = observed(thread, GLOBAL, WRITE);
        assert_eq!(block.observe(&launch.launch, access, |_| 7), None);
    }
    let other = observed(0, GLOBAL, WRITE);
    let found = block.observe(&launch.launch, other, |_| 8);
    assert_eq!(found, race(0, 3, true));
}

#[test]
fn bytes_of_one_word_are_apart() {
    let mut launch = Launch::new();
    let mut block = launch.block(0);
    let byte = Access::Write(1);
    assert_eq!(launch.tell(&mut block, 0, GLOBAL, byte), None);
    assert_eq!(launch.tell(&mut block, 1, GLOBAL + 1, byte), None);
    assert_eq!(
        launch.tell(&mut block, 2, GLOBAL + 1, byte),
        race(0, 1, true)
    );
    // A wide access touches all of its words.
    let wide = Access::Write(16);
    assert_eq!(launch.tell(&mut block, 0, GLOBAL + 16, wide), None);
    assert_eq!(
        launch.tell(&mut block, 1, GLOBAL + 28, READ),
        race(0, 0, true)
    );
}

#[test]
fn blocks_race_unless_both_have_fenced() {
    let mut launch = Launch::new();
    let [mut first, mut second] = [launch.block(0), launch.block(1)];
    launch.tell(&mut first, 0, GLOBAL, WRITE);
    assert_eq!(launch.tell(&mut second, 0, GLOBAL, READ), race(0, 0, true));
    first.fence(&launch.launch, 0);
    assert_eq!(launch.tell(&mut second, 1, GLOBAL, READ), race(0, 0, true));
    second.fence(&launch.launch, 1);
    assert_eq!(launch.tell(&mut second, 1, GLOBAL, READ), None);
    // Shared memory is each block's own.
    launch.tell(&mut first, 0, SHARED, WRITE);
    launch.tell(&mut second, 1, SHARED, WRITE);
    assert_eq!(launch.tell(&mut second, 1, SHARED, READ), None);
}

#[test]
fn what_nobody_wrote_is_told_of_when_it_is_read() {
    let mut launch = Launch::new();
    let mut block = launch.block(0);
    let local = 0x1810;
    assert_eq!(
        launch.tell(&mut block, 0, local, READ),
        Some(Finding::Uninitialised)
    );
    launch.tell(&mut block, 0, local, Access::Write(2));
    assert_eq!(launch.tell(&mut block, 0, local, Access::Read(2)), None);
    assert_eq!(
        launch.tell(&mut block, 0, local, READ),
        Some(Finding::Uninitialised)
    );
    block.wrote(SHARED, 4);
    assert_eq!(launch.tell(&mut block, 0, SHARED, READ), None);
    assert_eq!(
        launch.tell(&mut block, 0, SHARED + 4, ATOMIC),
        Some(Finding::Uninitialised)
    );
    // Global memory is the host's to fill.
    assert_eq!(launch.tell(&mut block, 0, GLOBAL, READ), None);
    block.start(1);
    assert_eq!(
        launch.tell(&mut block, 0, SHARED, READ),
        Some(Finding::Uninitialised)
    );
}

#[test]
fn a_process_does_not_change_its_checks() {
    let chosen = Checks::of_process();
    assert_eq!(chosen.choose(), Ok(()));
    let other = Checks {
        race: !chosen.race,
        ..chosen
    };
    assert_eq!(other.choose(), Err(ChecksInUse(chosen)));
    assert_eq!(Checks::of_process(), chosen);
}

#[test]
fn unknown_words_are_left_out() {
    assert_eq!(
        Checks::parse("race, speed"),
        Checks {
            init: false,
            race: true
        }
    );
    assert!(!Checks::parse("memory").any());
}

//! Arguments that no program should pass.

use std::any::TypeId;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fmt::Write;

use api::*;
use cudarc::driver::sys::{
    CUarray_st, CUctx_st, CUevent_st, CUfunc_st, CUgraph_st, CUgraphExec_st, CUgraphNode_st,
    CUgraphicsResource_st, CUkern_st, CUlib_st, CUlinkState_st, CUmemPoolHandle_st,
    CUmipmappedArray_st, CUmod_st, CUstream_st, CUsurfref_st, CUtexref_st,
};

use super::world::{KERNELS, World, nothing};

/// Words of each of the pieces of memory that pointers point to.
const WORDS: usize = 32 << 10;
/// How many pieces there are: a call uses each once.
const PIECES: usize = 12;

/// Numbers that are sizes, counts, flags and kinds.
const SMALL: [u64; 11] = [0, 0, 1, 1, 2, 3, 4, 7, 8, 16, 32];
/// Numbers that are absurd as each of them, and no address of a process.
const ABSURD: [u64; 8] = [
    u64::MAX,
    u64::MAX - 7,
    i64::MAX as u64,
    1 << 63,
    1 << 62,
    1 << 61,
    1 << 50,
    (i64::MAX as u64) / 8,
];
const ABSURD_COUNT: [u64; 3] = [u32::MAX as u64, u32::MAX as u64 - 3, 1 << 31];
const TEXTS: [&[u8]; 9] = [
    b"",
    b"k",
    b"g",
    b"no such name",
    b".version 99.9\n.target sm_80\n.address_size 64\n.visible .entry k() { bra",
    b"\x7fELF\x02\x01\x01\x33",
    b"\x50\xed\x55\xba\x01\0\x10\0\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xb1\x43\x62\x46\x01\0\0\0",
    b"\xff\xfe\x80 no UTF-8",
];

/// Where arguments come from: a sequence of numbers that the seed determines, and the objects of
/// the world.
pub struct Source {
    world: World,
    state: u64,
    pieces: Vec<Vec<u64>>,
    used: usize,
    entry: &'static str,
    told: String,
    /// Where the call writes a handle, and of which kind it is.
    made: Vec<(TypeId, usize)>,
}

impl Source {
    pub fn new(world: World, seed: u64) -> Source {
        Source {
            world,
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1,
            pieces: (0..PIECES).map(|_| vec![0; WORDS]).collect(),
            used: 0,
            entry: "",
            told: String::new(),
            made: Vec::new(),
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn begin(&mut self, entry: &'static str) {
        if !World::has_context() {
            self.world = World::new();
        }
        (self.entry, self.used) = (entry, 0);
        self.told.clear();
        self.made.clear();
    }

    fn note(&mut self, argument: u64) {
        let _ = write!(self.told, " {argument:#x}"); // a String takes it
    }

    /// Says which call comes, for the case that it is the last.
    pub fn tell(&self) {
        eprintln!("{}{}", self.entry, self.told);
    }

    /// Takes up what the call has made.
    pub fn end(&mut self, status: c_int) {
        for (kind, piece) in std::mem::take(&mut self.made) {
            let word = self.pieces[piece][0];
            let is_of_the_test = self
                .pieces
                .iter()
                .any(|piece| piece.as_ptr().addr() as u64 == word);
            if status != 0 || is_of_the_test {
                continue;
            }
            if kind == TypeId::of::<u64>() && word >> 32 != 0 {
                self.world.numbers.push(word)
            } else {
                self.world.handles.push((kind, word as usize))
            }
        }
    }

    fn handle(&mut self, kind: TypeId) -> usize {
        let live: Vec<usize> = self
            .world
            .handles
            .iter()
            .filter(|of| of.0 == kind)
            .map(|of| of.1)
            .collect();
        match self.below(8) {
            0 => 0,
            1 => self.one_of(&[1, 2, 3, 0x1001, usize::MAX, 1 << 62]),
            2 if !self.world.freed.is_empty() => {
                let at = self.below(self.world.freed.len());
                self.world.freed[at]
            }
            3 => {
                let at = self.below(self.world.handles.len());
                self.world.handles[at].1
            }
            _ if live.is_empty() => 0,
            _ => self.one_of(&live),
        }
    }

    /// A number that may be the device memory of the world.
    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 | 1 => {
                let at = self.below(self.world.numbers.len());
                self.world.numbers[at]
            }
            2 | 3 => self.one_of(&SMALL),
            4 => self.one_of(&ABSURD),
            _ => {
                let at = self.below(self.world.handles.len());
                self.world.handles[at].1 as u64
            }
        }
    }

    /// A size: as large as a piece of memory at most, or absurd.
    fn size(&mut self) -> u64 {
        if self.once_in(4) {
            self.one_of(&ABSURD)
        } else {
            self.one_of(&SMALL)
        }
    }

    /// The same in 32 bits. As a number of blocks it is refused: a launch of many has no end.
    fn count(&mut self) -> u64 {
        if self.once_in(4) {
            self.one_of(&ABSURD_COUNT)
        } else {
            self.one_of(&SMALL)
        }
    }

    /// A word in memory: a number, a pointer to other memory of the test, or a handle.
    fn word(&mut self, with_handles: bool) -> u64 {
        match self.below(12) {
            0..4 => 0,
            4..6 => self.one_of(&SMALL),
            6 => self.one_of(&ABSURD),
            7..9 => {
                let at = self.below(PIECES);
                self.pieces[at].as_ptr().expose_provenance() as u64
            }
            9..11 if with_handles => {
                let at = self.below(self.world.handles.len());
                self.world.handles[at].1 as u64
            }
            _ => {
                let at = self.below(self.world.numbers.len());
                self.world.numbers[at]
            }
        }
    }

    /// A piece of memory with words in it.
    fn piece(&mut self, kind: TypeId) -> usize {
        // Handles are no sizes of copies: those may be larger than a piece.
        let with_handles = !copies().contains(&kind);
        let piece = self.used % PIECES;
        self.used += 1;
        let how = self.below(4);
        for at in 0..64 {
            self.pieces[piece][at] = match how {
                0 => 0,
                1 => self.one_of(&SMALL),
                _ if kind == TypeId::of::<CUDA_MEMCPY3D_PEER>() => self.word_of_peer_copy(at),
                _ => self.word(with_handles),
            };
        }
        piece
    }

    /// A word of `CUDA_MEMCPY3D_PEER`. With live contexts the copy is made: it stays within a
    /// piece of memory.
    fn word_of_peer_copy(&mut self, at: usize) -> u64 {
        let host = [
            std::mem::offset_of!(CUDA_MEMCPY3D_PEER, srcHost),
            std::mem::offset_of!(CUDA_MEMCPY3D_PEER, dstHost),
        ];
        let handles = [
            std::mem::offset_of!(CUDA_MEMCPY3D_PEER, srcArray),
            std::mem::offset_of!(CUDA_MEMCPY3D_PEER, srcContext),
            std::mem::offset_of!(CUDA_MEMCPY3D_PEER, dstArray),
            std::mem::offset_of!(CUDA_MEMCPY3D_PEER, dstContext),
        ];
        match at * size_of::<u64>() {
            at if host.contains(&at) => {
                let piece = self.below(PIECES);
                self.pieces[piece].as_ptr().expose_provenance() as u64
            }
            at if handles.contains(&at) => {
                let handle = self.below(self.world.handles.len());
                self.world.handles[handle].1 as u64
            }
            _ => self.one_of(&SMALL),
        }
    }

    fn pointer<T: 'static>(&mut self) -> *mut T {
        if self.once_in(5) {
            return std::ptr::null_mut();
        }
        let kind = TypeId::of::<T>();
        let piece = self.piece(kind);
        if kind == TypeId::of::<c_char>() || (kind == TypeId::of::<c_void>() && self.once_in(2)) {
            self.text(piece);
        }
        if kind == TypeId::of::<*mut c_void>() {
            self.pointers(piece);
        }
        if kind == TypeId::of::<u64>() {
            self.made.push((kind, piece));
        }
        if let Some((_, kind)) = kinds().into_iter().find(|(of, _)| *of == kind) {
            for at in 0..64 {
                self.pieces[piece][at] = self.handle(kind) as u64;
            }
            self.made.push((kind, piece));
        }
        self.functions(kind, piece);
        self.pieces[piece].as_mut_ptr().cast()
    }

    /// A name, or an image of code.
    fn text(&mut self, piece: usize) {
        let text = if self.once_in(4) {
            KERNELS.to_bytes()
        } else {
            self.one_of(&TEXTS)
        };
        let words = text.chunks(8).map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(bytes)
        });
        let words: Vec<u64> = words.chain([0]).collect();
        self.pieces[piece][..words.len()].copy_from_slice(&words);
    }

    /// The arguments of a launch: pointers.
    fn pointers(&mut self, piece: usize) {
        let of_null = self.once_in(3);
        for at in 0..64 {
            let other = self.below(PIECES);
            let address = self.pieces[other].as_ptr().expose_provenance() as u64;
            self.pieces[piece][at] = if of_null && self.once_in(2) {
                0
            } else {
                address
            };
        }
    }

    /// A function that the device calls is one, or null.
    fn functions(&mut self, kind: TypeId, piece: usize) {
        let function = if self.once_in(3) {
            0
        } else {
            nothing as *const () as u64
        };
        if kind == TypeId::of::<CUDA_HOST_NODE_PARAMS_v1>() {
            self.pieces[piece][0] = function;
        }
        if kind == TypeId::of::<GraphNodeParams>() {
            let node = self.below(15) as u64;
            self.pieces[piece][0] = node;
            const HOST: u64 = 3;
            if node == HOST {
                self.pieces[piece][2] = function;
            }
        }
    }
}

/// What a handle of a kind points to, by the type of a pointer to a handle: `(*mut T, T)`.
fn kinds() -> Vec<(TypeId, TypeId)> {
    macro_rules! kinds {
        ($($of:ty)*) => { vec![$((TypeId::of::<*mut $of>(), TypeId::of::<$of>())),*] };
    }
    kinds! {
        CUctx_st CUmod_st CUfunc_st CUlib_st CUkern_st CUlinkState_st CUstream_st CUevent_st
        CUgraph_st CUgraphNode_st CUgraphExec_st CUarray_st CUmipmappedArray_st
        CUmemPoolHandle_st CUgraphicsResource_st CUtexref_st CUsurfref_st
    }
}

/// What says where and how much is copied or filled.
fn copies() -> [TypeId; 6] {
    [
        TypeId::of::<BoxCopy>(),
        TypeId::of::<CUDA_MEMCPY2D>(),
        TypeId::of::<CUDA_MEMCPY3D>(),
        TypeId::of::<CUDA_MEMCPY3D_PEER>(),
        TypeId::of::<CUDA_MEMSET_NODE_PARAMS_v1>(),
        TypeId::of::<GraphNodeParams>(),
    ]
}

pub trait Argument: Sized {
    fn choose(source: &mut Source) -> Self;
}

macro_rules! numbers {
    ($($ty:ty: $how:ident)*) => {
        $(impl Argument for $ty {
            fn choose(source: &mut Source) -> $ty {
                let number = source.$how();
                source.note(number);
                number as $ty
            }
        })*
    };
}
numbers! { c_int: count c_uint: count u8: count u16: count u64: number usize: size f32: count }

impl<T: 'static> Argument for *mut T {
    fn choose(source: &mut Source) -> *mut T {
        let kind = TypeId::of::<T>();
        let is_handle = kinds().iter().any(|(_, of)| *of == kind)
            || (kind == TypeId::of::<c_void>() && source.entry.contains("UserObject"));
        let pointer: *mut T = if is_handle {
            std::ptr::without_provenance_mut(source.handle(kind))
        } else {
            source.pointer()
        };
        source.note(pointer.addr() as u64);
        pointer
    }
}

impl<T: 'static> Argument for *const T {
    fn choose(source: &mut Source) -> *const T {
        <*mut T>::choose(source)
    }
}

impl Argument for MemLocation {
    fn choose(source: &mut Source) -> MemLocation {
        MemLocation {
            kind: source.count() as c_uint,
            id: source.count() as c_int,
        }
    }
}

macro_rules! bytes {
    ($($ty:ident)*) => {
        $(impl Argument for $ty {
            fn choose(source: &mut Source) -> $ty {
                $ty { reserved: std::array::from_fn(|_| source.next() as c_char) }
            }
        })*
    };
}
bytes! { CUipcMemHandle CUipcEventHandle }

impl Argument for CUhostFn {
    fn choose(source: &mut Source) -> CUhostFn {
        (!source.once_in(3)).then_some(nothing)
    }
}

unsafe extern "C" fn called_back(_: CUstream, _: c_uint, _: *mut c_void) {}

impl Argument for StreamCallback {
    fn choose(source: &mut Source) -> StreamCallback {
        (!source.once_in(3)).then_some(called_back)
    }
}

unsafe extern "C" fn told(_: *mut c_void, _: c_uint, _: *mut c_char, _: usize) {}

impl Argument for LogsCallback {
    fn choose(source: &mut Source) -> LogsCallback {
        (!source.once_in(3)).then_some(told)
    }
}

unsafe extern "C" fn over_budget(_: *mut AsyncNotification, _: *mut c_void, _: *mut c_void) {}

impl Argument for AsyncCallback {
    fn choose(source: &mut Source) -> AsyncCallback {
        (!source.once_in(3)).then_some(over_budget)
    }
}

unsafe extern "C" fn shared_bytes(threads: c_int) -> usize {
    threads as usize * 4096
}

impl Argument for CUoccupancyB2DSize {
    fn choose(source: &mut Source) -> CUoccupancyB2DSize {
        (!source.once_in(3)).then_some(shared_bytes)
    }
}

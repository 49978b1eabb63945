//! Matrix products by kernels that this program makes: one for each choice of tile sizes. It
//! launches all of them, compares the products with the host's, and prints their times.
//!
//! `cargo run --release --features build --example build_sgemm [auto|nvidia|nvidia:N|cpu] [SIZE]`

use std::error::Error;

use ptxkit::build::{self, Global, Ptr, Register, special};
use ptxkit::cache::Cache;
use ptxkit::driver::{Context, Device, DeviceBuffer, Event, LaunchConfig, Stream, select};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Source};
use ptxkit::ptx::Ptx;

/// How the product is cut. A block of threads has `rows` × `columns` of it, each thread
/// `thread_rows` × `thread_columns`; `depth` columns of A and rows of B are in shared memory at
/// a time. All are powers of two, and those of a thread multiples of 4.
#[derive(Clone, Copy, Debug)]
struct Tile {
    rows: u32,
    columns: u32,
    depth: u32,
    thread_rows: u32,
    thread_columns: u32,
}

impl Tile {
    fn threads(self) -> u32 {
        self.rows / self.thread_rows * (self.columns / self.thread_columns)
    }

    /// Whether a block exists on every device, and its threads divide the loads among them.
    fn is_possible(self) -> bool {
        let threads = self.threads();
        let shared = 4 * self.depth * (self.rows + self.columns);
        let loads = [self.depth * self.rows / 4, self.depth * self.columns / 4];
        (32..=1024).contains(&threads)
            && shared <= 48 << 10
            && self.thread_rows * self.thread_columns <= 64
            && loads.iter().all(|loads| loads.is_multiple_of(threads))
    }
}

/// All tiles that are possible and divide a matrix of this size.
fn tiles(size: u32) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for (rows, columns) in [(32, 32), (64, 64), (64, 128), (128, 64), (128, 128)] {
        for depth in [8, 16] {
            for (thread_rows, thread_columns) in [(4, 4), (4, 8), (8, 4), (8, 8)] {
                let tile = Tile {
                    rows,
                    columns,
                    depth,
                    thread_rows,
                    thread_columns,
                };
                if tile.is_possible() && size.is_multiple_of(rows) && size.is_multiple_of(columns) {
                    tiles.push(tile);
                }
            }
        }
    }
    tiles
}

/// `c = a * b`, of square matrices in row order, whose size is a multiple of the tile's.
fn sgemm(tile: Tile) -> Result<Ptx, build::Error> {
    let Tile {
        rows,
        columns,
        depth,
        thread_rows,
        thread_columns,
    } = tile;
    let threads = tile.threads();
    let mut module = build::Module::new("sgemm");
    module.kernel("sgemm", |k| {
        k.required_threads(threads, 1, 1);
        let a = k.param::<Ptr<f32, Global>>("a");
        let b = k.param::<Ptr<f32, Global>>("b");
        let c = k.param::<Ptr<f32, Global>>("c");
        let size = k.param::<u32>("size");
        // The part of A is transposed, so that a thread reads its rows by vectors.
        let part_a = k.shared::<f32>("part_a", (depth * rows) as usize);
        let part_b = k.shared::<f32>("part_b", (depth * columns) as usize);
        let thread = k.special(special::TID_X).named("thread");
        let first_row = (k.special(special::CTAID_Y) * rows).named("first_row");
        let first_column = (k.special(special::CTAID_X) * columns).named("first_column");
        let across = columns / thread_columns;
        let row = ((thread / across) * thread_rows).named("row");
        let column = ((thread % across) * thread_columns).named("column");

        // The product so far, in registers.
        let sums: Vec<Vec<_>> = (0..thread_rows)
            .map(|i| {
                let columns = 0..thread_columns;
                columns
                    .map(|j| k.var(0.0_f32).named(&format!("sum_{i}_{j}")))
                    .collect()
            })
            .collect();

        k.for_step(0, size, depth, |start| {
            let start = start.named("start");
            k.comment("Columns of A and rows of B, four numbers at a time.");
            for load in 0..depth * rows / 4 / threads {
                let number = thread + load * threads;
                let (row, at) = (number / (depth / 4), (number % (depth / 4)) * 4);
                let place = (first_row + row).mul_add(size, start + at);
                let numbers = a.at(place).load_vector_readonly::<4>();
                let to = part_a.at(at.mul_add(rows, row));
                for (number, i) in numbers.into_iter().zip(0..) {
                    to.at(i * rows).store(number);
                }
            }
            for load in 0..depth * columns / 4 / threads {
                let number = thread + load * threads;
                let (row, at) = (number / (columns / 4), (number % (columns / 4)) * 4);
                let place = (start + row).mul_add(size, first_column + at);
                let numbers = b.at(place).load_vector_readonly::<4>();
                part_b.at(row.mul_add(columns, at)).store_vector(numbers);
            }
            k.barrier();
            let (of_a, of_b) = (part_a.at(row), part_b.at(column));
            for step in 0..depth {
                let quads = 0..thread_rows / 4;
                let a = quads.map(|quad| of_a.at(step * rows + 4 * quad).load_vector::<4>());
                let quads = 0..thread_columns / 4;
                let b = quads.map(|quad| of_b.at(step * columns + 4 * quad).load_vector::<4>());
                let b: Vec<_> = b.flatten().collect();
                for (a, sums) in a.flatten().zip(&sums) {
                    for (b, sum) in b.iter().zip(sums) {
                        sum.mul_add_assign(a, *b);
                    }
                }
            }
            k.barrier();
        });

        let place = (first_row + row).mul_add(size, first_column + column);
        let line = k.var(place).named("place");
        for sums in &sums {
            for (quad, at) in sums.chunks_exact(4).zip([0, 4]) {
                let &[x, y, z, w] = quad else { continue };
                c.at(line).at(at).store_vector([x, y, z, w]);
            }
            line.add_assign(size);
        }
    });
    module.finish()
}

pub fn run(device: Device, size: u32) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let stream = Stream::new(&context)?;
    let loader = Loader::new(context.clone(), Cache::from_environment());
    // Small integers, of which every sum is exact in any order.
    let number = |index: usize| ((index * 7 + index / 11) % 5) as f32;
    let length = (size * size) as usize;
    let numbers: Vec<f32> = (0..length).map(number).collect();
    let a = DeviceBuffer::from_slice(&context, &numbers)?;
    let b = DeviceBuffer::from_slice(&context, &numbers)?;
    let mut c = DeviceBuffer::<f32>::zeroed(&context, length)?;

    let mut best: Option<(f32, Tile)> = None;
    for tile in tiles(size) {
        let ptx = sgemm(tile)?;
        let loaded = loader.load(&Source::from(&ptx), &JitOptions::default())?;
        let kernel = loaded.module.kernel("sgemm")?;
        // SAFETY: `sgemm(a, b, c, size)` accesses size * size numbers of each.
        let kernel = unsafe { kernel.typed::<(*const f32, *const f32, *mut f32, u32)>() }?;
        let grid = (size / tile.columns, size / tile.rows);
        let config = LaunchConfig::from((grid, tile.threads()));
        c.fill(f32::NAN)?;
        let mut times = Vec::new();
        for _ in 0..4 {
            let (start, end) = (Event::new(&context)?, Event::new(&context)?);
            start.record(&stream)?;
            kernel.launch(config, &stream, (&a, &b, &mut c, size))?;
            end.record(&stream)?;
            end.synchronize()?;
            times.push(end.elapsed_ms_since(&start)?);
        }
        check(&numbers, &c.to_vec()?, size as usize)?;
        let time = times.into_iter().fold(f32::MAX, f32::min);
        let rate = 2.0 * f64::from(size).powi(3) / f64::from(time) / 1e6;
        let Tile {
            rows,
            columns,
            depth,
            thread_rows,
            thread_columns,
        } = tile;
        println!(
            "{rows:>4} x {columns:<3}  depth {depth:>2}  thread {thread_rows} x {thread_columns}  \
             {time:9.3} ms  {rate:9.1} GFLOP/s",
        );
        if best.is_none_or(|(least, _)| time < least) {
            best = Some((time, tile));
        }
    }
    match best {
        Some((time, tile)) => println!("{}: {time:.3} ms with {tile:?}", device.name()?),
        None => println!("no tile divides {size}: use a multiple of 32"),
    }
    Ok(())
}

/// Compares some rows with the host's product.
fn check(numbers: &[f32], product: &[f32], size: usize) -> Result<(), Box<dyn Error>> {
    for row in [0, size / 3, size - 1] {
        for column in 0..size {
            let terms = (0..size).map(|i| numbers[row * size + i] * numbers[i * size + column]);
            let (found, expected) = (product[row * size + column], terms.sum::<f32>());
            if found != expected {
                return Err(format!("({row}, {column}) is {found}, not {expected}").into());
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let chosen = select(arguments.next().unwrap_or("auto".into()).parse()?)?;
    println!("{} ({})", chosen.device.name()?, chosen.why);
    let size = arguments.next().unwrap_or("512".into()).parse()?;
    run(chosen.device, size)
}

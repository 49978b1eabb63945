//! The resources of the kernels in a cubin.

use ptxkit::image::{self, Image, ImageError};
use serde::{Deserialize, Serialize};
use terminal::output::Escaped;

/// What a kernel uses. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    pub name: String,
    /// For each thread.
    pub registers: u64,
    /// Instructions that spill or refill registers; `null` for code of CUDA before 12.6, which does
    /// not mark them.
    pub spills: Option<u64>,
    /// Static shared memory of a block, with what the architecture reserves.
    pub shared: u64,
    /// For each thread.
    pub stack: u64,
    /// Local memory for each thread, outside of the stack.
    pub local: u64,
    /// For each block.
    pub barriers: u64,
}

/// The columns of the table.
const COLUMNS: [&str; 6] = [
    "registers",
    "spills",
    "shared",
    "stack",
    "local",
    "barriers",
];

impl Resources {
    /// The resources of each kernel; none if the code is not a cubin.
    ///
    /// # Errors
    /// The cubin is damaged.
    pub fn of_code(code: &[u8]) -> Result<Vec<Resources>, ImageError> {
        let Ok(Image::Cubin(cubin)) = image::open(code) else {
            return Ok(Vec::new());
        };
        let kernels = cubin.contents()?.kernels.into_iter();
        Ok(kernels
            .map(|kernel| Resources {
                name: kernel.name,
                registers: kernel.registers.into(),
                spills: kernel.spills.map(u64::from),
                shared: kernel.shared,
                stack: kernel.stack.into(),
                local: kernel.local,
                barriers: kernel.barriers.into(),
            })
            .collect())
    }

    /// Each resource with its name, as the columns of the table. `None` if it is not known.
    pub fn values(&self) -> [(&'static str, Option<u64>); 6] {
        let values = [
            Some(self.registers),
            self.spills,
            Some(self.shared),
            Some(self.stack),
            Some(self.local),
            Some(self.barriers),
        ];
        std::array::from_fn(|index| (COLUMNS[index], values[index]))
    }
}

/// The kernels of several outputs as a table. Each row begins with `place`, such as the target.
pub fn table(rows: &[(String, &Resources)]) -> String {
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names: Vec<String> = rows
        .iter()
        .map(|(_, kernel)| Escaped::new(&kernel.name).to_string())
        .collect();
    let places = width(&mut rows.iter().map(|(place, _)| place.chars().count()));
    let kernels = width(&mut names.iter().map(|name| name.chars().count())).max("kernel".len());
    let mut text = format!("{:places$}  {:kernels$}", "", "kernel");
    for column in COLUMNS {
        text += &format!("  {column:>9}");
    }
    text.push('\n');
    for ((place, kernel), name) in rows.iter().zip(names) {
        text += &format!("{place:places$}  {name:kernels$}");
        for (_, value) in kernel.values() {
            let value = value.map_or("?".to_owned(), |value| value.to_string());
            text += &format!("  {value:>9}");
        }
        text.push('\n');
    }
    text
}

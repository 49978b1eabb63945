//! A row of the table: a function, what it is compared with, and what is promised of it.

/// What computes it on the device.
#[derive(Clone, Copy)]
pub enum Code {
    /// PTX, from `%fa`, `%fb`, `%fc` to `%fd`, or with `d` for `f` where it is of `f64`.
    Instruction(&'static str),
    /// An expression of CUDA C++ of `a`, `b` and `c`.
    Library(&'static str),
}

/// The exact result, rounded.
#[derive(Clone, Copy)]
pub enum Reference {
    F1(fn(f32) -> f32),
    F2(fn(f32, f32) -> f32),
    F3(fn(f32, f32, f32) -> f32),
    D1(fn(f64) -> f64),
    D2(fn(f64, f64) -> f64),
    D3(fn(f64, f64, f64) -> f64),
    /// Of an `f32`, not rounded to one: for errors that are not counted in ULP.
    Wide(fn(f64) -> f64),
}

impl Reference {
    /// Whether inputs and result are `f64`.
    pub fn is_double(self) -> bool {
        matches!(self, Reference::D1(_) | Reference::D2(_) | Reference::D3(_))
    }

    pub fn inputs(self) -> usize {
        match self {
            Reference::F1(_) | Reference::D1(_) | Reference::Wide(_) => 1,
            Reference::F2(_) | Reference::D2(_) => 2,
            Reference::F3(_) | Reference::D3(_) => 3,
        }
    }
}

/// How an error is counted.
#[derive(Clone, Copy)]
pub enum Error {
    /// Values between the result and the exact one, rounded to nearest.
    Ulp,
    /// The same, less what is allowed for this input.
    UlpBeyond(fn(f64) -> f64),
    Absolute,
    Relative,
}

/// The inputs that a promise is for.
pub type Domain = fn(f64, f64) -> bool;

pub struct Row {
    pub name: &'static str,
    pub code: Code,
    pub reference: Reference,
    pub error: Error,
    /// The most that is promised, if anything is; the exponent of 2 where it is not in ULP.
    pub bound: Option<f64>,
    /// All, without one.
    pub domain: Option<Domain>,
    pub domain_text: &'static str,
}

impl Row {
    fn new(name: &'static str, code: Code, reference: Reference, bound: f64) -> Row {
        Row {
            name,
            code,
            reference,
            error: Error::Ulp,
            bound: Some(bound),
            domain: None,
            domain_text: "",
        }
    }

    /// An instruction, and the most ULP that are promised.
    pub fn ptx(name: &'static str, text: &'static str, reference: Reference, bound: f64) -> Row {
        Row::new(name, Code::Instruction(text), reference, bound)
    }

    /// A function of CUDA's library, and the most ULP that are promised.
    pub fn cuda(name: &'static str, reference: Reference, bound: f64) -> Row {
        Row::new(name, Code::Library(name), reference, bound)
    }

    /// By another expression than the name.
    pub fn by(mut self, expression: &'static str) -> Row {
        self.code = Code::Library(expression);
        self
    }

    pub fn within(mut self, text: &'static str, domain: Domain) -> Row {
        (self.domain_text, self.domain) = (text, Some(domain));
        self
    }

    pub fn absolute(mut self) -> Row {
        self.error = Error::Absolute;
        self
    }

    pub fn relative(mut self) -> Row {
        self.error = Error::Relative;
        self
    }

    pub fn beyond(mut self, allowed: fn(f64) -> f64) -> Row {
        self.error = Error::UlpBeyond(allowed);
        self
    }

    pub fn is_library(&self) -> bool {
        matches!(self.code, Code::Library(_))
    }

    /// The name, and the inputs where they are not all.
    pub fn title(&self) -> String {
        match self.domain_text {
            "" => self.name.to_owned(),
            domain => format!("{}, {domain}", self.name),
        }
    }

    /// The kernel's name.
    pub fn symbol(&self) -> String {
        // Signs as their numbers, so that `x+y` and `x*y` are two names.
        let letters = self.name.chars().map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_string(),
            false => format!("_{:x}_", u32::from(c)),
        });
        let double = if self.reference.is_double() {
            "d_"
        } else {
            "f_"
        };
        double.to_owned() + &letters.collect::<String>()
    }
}

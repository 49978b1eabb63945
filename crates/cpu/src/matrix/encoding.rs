//! Operations as numbers, for blobs.

use super::element::Element;
use super::fragment::operands;
use super::operation::{Code, NO_SLOT, Operation};

impl Operation {
    /// The numbers that [`from_words`](Self::from_words) reads.
    pub fn words(&self) -> Vec<u32> {
        let mut words = vec![self.code as u32, self.flags];
        words.extend(self.shape);
        words.extend(self.elements.map(|element| element as u32));
        words.extend(&self.slots);
        words
    }

    /// `None` unless the instruction exists and its slots are among the first `slots`.
    pub fn from_words(words: &[u32], slots: u32) -> Option<Operation> {
        let (&[code, flags, m, n, k, d, a, b, c], rest) = words.split_first_chunk()?;
        let element = Element::from_number;
        let operation = Operation {
            code: Code::from_number(code)?,
            flags,
            shape: [m, n, k],
            elements: [element(d)?, element(a)?, element(b)?, element(c)?],
            slots: rest.to_vec(),
        };
        let operands = operands(&operation)?;
        let results = operands.results();
        let valid = |(at, &slot): (usize, &u32)| slot < slots || at < results && slot == NO_SLOT;
        (rest.len() == operands.total() && rest.iter().enumerate().all(valid)).then_some(operation)
    }
}

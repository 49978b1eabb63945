//! Lists of numbers in one array.

/// Lists of numbers, by number.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    /// So many lists, from pairs of a list and an element.
    pub fn new(count: usize, pairs: &[(u32, u32)]) -> Lists {
        Lists::of(count, pairs.iter().copied())
    }

    /// From pairs of an element and a list.
    pub(super) fn backward(count: usize, pairs: &[(u32, u32)]) -> Lists {
        Lists::of(count, pairs.iter().map(|(element, list)| (*list, *element)))
    }

    fn of(
        count: usize,
        pairs: impl DoubleEndedIterator<Item = (u32, u32)> + ExactSizeIterator + Clone,
    ) -> Lists {
        let mut starts = vec![0; count + 1];
        for (list, _) in pairs.clone() {
            starts[list as usize] += 1;
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        // From the last to the first, so that each is where its list starts in the end.
        let mut all = vec![0; pairs.len()];
        for (list, element) in pairs.rev() {
            let start = &mut starts[list as usize];
            *start -= 1;
            all[*start as usize] = element;
        }
        Lists { starts, all }
    }

    /// The number of lists.
    pub(super) fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// A list, in the order of the pairs.
    #[inline]
    pub fn get(&self, list: u32) -> &[u32] {
        let at = list as usize;
        &self.all[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

//! Lists in one array.

/// Lists of numbers, or of what else is as small, by number.
#[derive(Clone, Debug, Default)]
pub struct Lists<T = u32> {
    starts: Vec<u32>,
    all: Vec<T>,
}

impl<T: Copy + Default> Lists<T> {
    /// So many lists, from pairs of a list and an element.
    pub fn new(count: usize, pairs: &[(u32, T)]) -> Lists<T> {
        Lists::of(count, pairs.iter().copied())
    }

    fn of(
        count: usize,
        pairs: impl DoubleEndedIterator<Item = (u32, T)> + ExactSizeIterator + Clone,
    ) -> Lists<T> {
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
        let mut all = vec![T::default(); pairs.len()];
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
    pub fn get(&self, list: u32) -> &[T] {
        let at = list as usize;
        &self.all[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

impl Lists {
    /// From pairs of an element and a list.
    pub(super) fn backward(count: usize, pairs: &[(u32, u32)]) -> Lists {
        Lists::of(count, pairs.iter().map(|(element, list)| (*list, *element)))
    }
}

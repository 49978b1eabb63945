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
        let mut starts = vec![0; count + 1];
        for (list, _) in pairs {
            starts[*list as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut all = vec![0; pairs.len()];
        for (list, element) in pairs {
            let place = &mut next[*list as usize];
            all[*place as usize] = *element;
            *place += 1;
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

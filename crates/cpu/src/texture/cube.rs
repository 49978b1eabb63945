//! Cube maps: the face that a direction selects, and the adjacency of faces.

/// The face that a direction selects, in the order +x, -x, +y, -y, +z, -z, and the
/// coordinates in it, from 0 to 1.
pub(super) fn face([x, y, z]: [f64; 3]) -> (usize, [f64; 2]) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let (face, major, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 {
            (0, ax, -z, -y)
        } else {
            (1, ax, z, -y)
        }
    } else if ay >= az {
        if y >= 0.0 {
            (2, ay, x, z)
        } else {
            (3, ay, x, -z)
        }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    let place = |n: f64| {
        if major == 0.0 {
            0.5
        } else {
            (n / major + 1.0) / 2.0
        }
    };
    (face, [place(s), place(t)])
}

/// The direction of coordinates in a face.
fn direction(face: usize, [s, t]: [f64; 2]) -> [f64; 3] {
    let (s, t) = (2.0 * s - 1.0, 2.0 * t - 1.0);
    match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    }
}

/// The texel of the adjacent face one step beyond an edge: face, column and row. `None`
/// beyond a corner, where there is no texel.
pub(super) fn over_edge(
    own: usize,
    [column, row]: [i64; 2],
    side: usize,
) -> Option<(usize, [usize; 2])> {
    let inside = |n: i64| (0..side as i64).contains(&n);
    if !inside(column) && !inside(row) {
        return None;
    }
    // Just beyond the edge: the direction of a whole step would meet the adjacent face
    // nearer to its middle.
    let place = |n: i64| match n {
        n if n < 0 => -1e-9,
        n if n >= side as i64 => 1.0 + 1e-9,
        n => (n as f64 + 0.5) / side as f64,
    };
    let (face, at) = self::face(direction(own, [place(column), place(row)]));
    let texel = |n: f64| ((n * side as f64) as usize).min(side - 1);
    Some((face, at.map(texel)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_meet_the_middles_of_faces() {
        let axes = [
            [2.0, 0.0, 0.0],
            [-2.0, 0.0, 0.0],
            [0.0, 2.0, 0.0],
            [0.0, -2.0, 0.0],
            [0.0, 0.0, 2.0],
            [0.0, 0.0, -2.0],
        ];
        for (number, axis) in axes.into_iter().enumerate() {
            assert_eq!(face(axis), (number, [0.5, 0.5]));
        }
        // Of the face +x, s grows toward -z and t toward -y.
        assert_eq!(face([4.0, -2.0, 1.0]), (0, [0.375, 0.75]));
    }

    #[test]
    fn a_direction_comes_back() {
        for number in 0..6 {
            let at = [0.125, 0.75];
            assert_eq!(face(direction(number, at)), (number, at));
        }
    }

    #[test]
    fn edges_join_faces() {
        // To the right of +x is -z, its left column; above +z is +y, its lowest row.
        assert_eq!(over_edge(0, [4, 1], 4), Some((5, [0, 1])));
        assert_eq!(over_edge(4, [2, -1], 4), Some((2, [2, 3])));
        // Left of +x is +z, its right column.
        assert_eq!(over_edge(0, [-1, 0], 4), Some((4, [3, 0])));
        assert_eq!(over_edge(0, [-1, -1], 4), None);
        // Crossing the same edge again leads back to the first face.
        for (own, at) in [(0, [4, 1]), (2, [-1, 3]), (3, [0, 4]), (5, [2, -1])] {
            let (other, [column, row]) = over_edge(own, at, 4).unwrap();
            let beside = [[-1, 0], [1, 0], [0, -1], [0, 1]]
                .map(|[dx, dy]| [column as i64 + dx, row as i64 + dy])
                .into_iter()
                .filter(|&[x, y]| !(0..4).contains(&x) || !(0..4).contains(&y));
            assert!(
                beside
                    .filter_map(|at| over_edge(other, at, 4))
                    .any(|(face, _)| face == own)
            );
        }
    }
}

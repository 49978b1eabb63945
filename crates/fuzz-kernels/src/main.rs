use ptxkit_fuzz_kernels::{child::*, mode::*, job::*, generate::*};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.get(1).is_some_and(|x| x == "--child") { return serve(a[2].parse().unwrap()); }
    let (from, to): (u64, u64) = (a[1].parse().unwrap(), a[2].parse().unwrap());
    let modes = [Mode::Baseline, Mode::Scalar, Mode::Auto, Mode::Vectors, Mode::Hot, Mode::Sliced, Mode::OneWorker];
    let mut children: Vec<Child> = modes.iter().map(|m| Child::new(*m)).collect();
    let mut bad = 0;
    for seed in from..to {
        let k = generate(seed, Default::default());
        let job = Job::new(&k);
        for c in &mut children { c.start(&job); }
        let o: Vec<Outcome> = children.iter_mut().map(|c| c.wait()).collect();
        if o.iter().any(|x| x != &o[0]) || !matches!(o[0], Outcome::Digest(_)) { bad += 1; println!("{seed} {:?}", o); std::fs::write(format!("/tmp/bad{seed}.ptx"), &job.ptx).unwrap(); }
    }
    println!("{bad} bad");
}

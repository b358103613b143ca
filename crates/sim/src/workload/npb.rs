//! The eight programs of the FLSCHED paper's figures 1 and 3: NAS Parallel Benchmarks 3.3.1, OpenMP,
//! class A, as parallel loops with a barrier after each.
//!
//! Where the numbers are from:
//! - `operations_m`: what the program itself divides by its time for its Mop/s, worked out for class A; UA's as it counts
//!   them in a run.
//! - `instructions`: measured, as nanoseconds of the clock that counts instructions (`flsched vm --clock work`): the Mop/s
//!   of class W with one thread, compiled by gfortran and gcc 12.2 with `-O2` for x86-64. Other compilers, and vectors,
//!   need fewer.
//! - `loops`: barriers of one iteration, the ends of parallel regions included, counted in the sources.
//!   Loops that only a set-up before the timed part has are left out, so is UA's mesh adaptation.
//! - `pieces`: iterations of the loop that is divided, mostly a grid's outermost dimension: with more
//!   threads than that, the rest have nothing to do.
//! - How long an instruction takes is the parameter MIPS, 275 by default: four cycles for one thread of a 1.1 GHz in-order
//!   core, as the kernel's own work in `knc-31s1p`; an estimate, not fitted to any result.
//! - The clock begins as in the programs: all threads exist, and all programs but EP have done one iteration.
//!   The first thread reads it.
//! - The imbalance, 5 %, is an estimate. EP's is the same; nothing there waits but at the end.
use super::phases::{Clock, Plan, Stage, wait_of};
use super::{Program, Workload, World};
use flsched_spec::workload::{Npb, NpbName};

struct Shape {
    /// Of the whole run, in millions.
    operations_m: u64,
    /// Of a hundred operations.
    instructions: u64,
    /// Loops of a step, pieces of each, share of a step's operations in percent.
    loops: &'static [(u64, u64, u64)],
}

fn shape(program: NpbName) -> Shape {
    let (operations_m, instructions, loops): (u64, u64, &'static [(u64, u64, u64)]) = match program {
        // rhs.f has 5, the three solvers and add.f one each; loops go over 62 inner planes of 64.
        NpbName::Bt => (168_300, 246, &[(9, 62, 100)]),
        // conj_grad: 5 in each of 25 rounds, 4 around them; 2 in the main loop; 14,000 rows.
        NpbName::Cg => (1_496, 356, &[(131, 14_000, 100)]),
        // One loop over 2^28 pairs of random numbers in blocks of 2^16.
        NpbName::Ep => (537, 5_102, &[(1, 4_096, 100)]),
        // evolve, three transforms and a checksum; over 128 planes, one transform over 256; all operations in
        // the transforms and evolve.
        NpbName::Ft => (7_136, 332, &[(4, 128, 75), (1, 256, 25)]),
        // rank() with buckets: three loops and the end; 2^23 keys, thousands to a piece.
        NpbName::Is => (84, 2_355, &[(4, 8_192, 100)]),
        // mg3P and resid: 13 on the finest grid of 256 planes, with 7/8 of the work, 70 on the coarser ones,
        // whose planes become fewer by half at each level: 64 is used for all.
        NpbName::Mg => (3_891, 248, &[(13, 254, 88), (70, 64, 12)]),
        // rhs.f has 5, txinvr and add one each, the solvers two each with their inversions.
        NpbName::Sp => (85_000, 243, &[(13, 62, 100)]),
        // diffusion(): 13 in each of 10 rounds, 4 around them; convect 6, the main loop 7; 2,400 elements.
        // The operations are collocation points advanced.
        NpbName::Ua => (544, 39_500, &[(147, 2_400, 100)]),
    };
    Shape { operations_m, instructions, loops }
}

const IMBALANCE_PERCENT: u64 = 5;

impl Workload for Npb {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let shape = shape(self.program);
        let instructions_m = shape.operations_m * shape.instructions / 100;
        let step_ns = instructions_m * 1_000_000_000 / self.mips / self.program.steps();
        let stages = shape.loops.iter().map(|&(loops, pieces, percent)| Stage {
            loops,
            pieces,
            piece_ns: step_ns / 100 * percent / loops / pieces,
        });
        let plan = Plan {
            name: self.program.name(),
            threads: self.threads,
            steps: self.steps,
            stages: stages.collect(),
            imbalance_percent: IMBALANCE_PERCENT,
            wait: wait_of(self.wait),
            clock: Clock::Thread0 { untimed_steps: u64::from(self.program != NpbName::Ep) },
        };
        plan.main(world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs' own formulas for their Mop/s, with class A's sizes.
    #[test]
    fn operations_follow_from_the_programs_own_formulas() {
        let n3 = 64f64.powi(3);
        let points = f64::from(256 * 256 * 128);
        let exact = [
            200.0 * (3478.8 * n3 - 17655.7 * 4096.0 + 28023.7 * 64.0),
            2.0 * 15.0 * 14000.0 * (3.0 + 132.0 + 25.0 * (5.0 + 132.0) + 3.0),
            2f64.powi(29),
            points * (14.8157 + 7.19641 * points.ln() + (5.23518 + 7.21113 * points.ln()) * 6.0),
            10.0 * 2f64.powi(23),
            58.0 * 4.0 * 256f64.powi(3),
            400.0 * (881.174 * n3 - 4683.91 * 4096.0 + 11484.5 * 64.0 - 19272.4),
        ];
        for (program, exact) in NpbName::ALL.into_iter().zip(exact) {
            let shape = shape(program);
            let ratio = shape.operations_m as f64 * 1e6 / exact;
            assert!((0.995..1.005).contains(&ratio), "{}: {ratio}", program.name());
            assert_eq!(shape.loops.iter().map(|(.., percent)| percent).sum::<u64>(), 100);
        }
    }
}

// Package slurm runs deploy/rdmaperf-mesh.sbatch on a real Slurm: Debian's slurmctld, slurmd and munge, on virtual
// nodes of one machine. Each node has a network namespace, a host name and an address. The adapters are those of one
// emulator.
//
//	make test-slurm
package slurm

// Package roster knows which hosts a mesh expects, which have come, and which were left out or lost. It also reads and
// writes lists of hosts as Slurm has them.
package roster

// Package mesh measures each pair of many hosts, by agents that run on them, and names those that are slow.
//
//	state.go     the configuration, and what a mesh at work knows; result.go has its figures, for people and as JSON
//	words.go     what NICs and pairs are called
//	darkness.go  which NICs reach which, as far as it is known
//	own.go       faults of this process, which say nothing of a host
//	gather.go    hosts that come, doubt.go those that do not say who they are
//	once.go      one test; busy.go repeats it if CPUs were busy
//	rails.go     the NICs of two hosts; pair.go measures them, pass.go all that a schedule has
//	reach.go     who reaches whom, before anything is measured
//	sheet.go     one figure of all pairs; outliers.go, group.go, judge.go and verdict.go find what is slow in it
//	until.go     more rounds; confirm.go measures suspects again
//	run.go       all of it, in order
//
// A file uses those above it.
package mesh

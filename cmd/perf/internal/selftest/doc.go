// Package selftest runs the first hour of an adapter: twelve steps that check what no emulator can show, such as the
// order in which the adapter sees stores, and that record what it reports. The result is one JSON object to send back.
//
//	result.go     what is sent back
//	run.go        starts a process for each step, and ends it when its time is over
//	step.go       a step in its process: its list of checks
//	rig.go        devices, queue pairs and memory of a check
//	the others    one step each
//
// Each step runs in a process of its own, so that one that crashes or hangs is also a result. Each has limits: a time,
// and for the long ones a count.
package selftest

// Package hca is the emulated adapter as the kernel driver sees it: devices, ports, contexts, protection domains, memory keys, queues, and the rules by
// which they are created, modified and destroyed. It executes no work request: that is the engine's part, which keeps its state in the run fields.
//
// Everything hangs off a [Fabric], whose lock guards all of it: commands and the engine's batches both take it.
package hca

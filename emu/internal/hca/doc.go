// Package hca is the emulated adapter as the kernel driver sees it: devices, ports, contexts, protection domains,
// memory keys, queues, and the rules by which they are created, modified and destroyed. It executes no work requests:
// the engine does, and keeps its state in the Run fields.
//
// Everything hangs off a [Fabric], whose lock guards all of it: commands and the engine's batches both take it.
package hca

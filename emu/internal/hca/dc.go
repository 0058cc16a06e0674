//go:build linux

package hca

// DC is what a QP of the dynamically connected transport has beyond others. A DCI sends to any DCT, named by each work
// request; a DCT receives from any DCI that knows its key, into its SRQ.
type DC struct {
	AccessKey uint64 // DCT
	// DCI: log2 of its streams, and of how many of them may be in error before the QP is.
	Streams, ErroredStreams uint8
	HasStreams              bool
}

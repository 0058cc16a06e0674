//go:build linux

package hca

import "golang.org/x/sys/unix"

// DC is what a QP of the dynamically connected transport has beyond others. A DCI sends to any DCT, named by each work
// request; a DCT receives from any DCI that knows its key, into its SRQ.
type DC struct {
	AccessKey uint64 // DCT
	// DCI: log2 of its streams, and of how many of them may be in error before the QP is.
	Streams, ErroredStreams uint8
	HasStreams              bool
}

// checkDC checks what DC QPs are made of. C: check_qp_attr of mlx5_ib.
func (qp *QP) checkDC() unix.Errno {
	switch {
	case qp.Type == DCT && (qp.SRQ == nil || qp.RecvCQ == nil), qp.Type == DCI && (qp.Cap.RecvWR|qp.Cap.RecvSGE) != 0:
		return unix.EINVAL
	}
	return 0
}

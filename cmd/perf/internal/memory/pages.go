package memory

import (
	"io"

	"github.com/pureverbs/pureverbs/ibv"
)

// pages are memory of this process, which is registered where it is allocated.
type pages struct {
	block
	size     int
	opt      ibv.MemOptions
	implicit bool
	own      *ibv.MR
}

func (p *pages) register(pd *ibv.PD, access ibv.AccessFlags) (mr *ibv.MR, addr uint64, err error) {
	if !p.implicit {
		p.own, err = pd.AllocMR(p.size, access, &p.opt)
		mr = p.own
	} else if mr, err = pd.RegImplicit(access); err == nil {
		// Only its memory is used. Registered on demand it is not pinned, and unknown to the device under the other
		// key.
		p.own, err = pd.AllocMR(p.size, access|ibv.OnDemand, &p.opt)
	}
	if err != nil {
		return mr, 0, err
	}
	p.block = p.own.Bytes()
	return mr, p.own.Addr(), nil
}

func (p *pages) free() error {
	if p.own == nil {
		return nil
	}
	return p.own.Close()
}

// block is memory of this process.
type block []byte

func (m block) bytes() []byte { return m }

func (m block) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) || len(b) > len(m)-int(off) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b, m[off:]), nil
}

func (m block) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) || len(b) > len(m)-int(off) {
		return 0, io.ErrShortWrite
	}
	return copy(m[off:], b), nil
}

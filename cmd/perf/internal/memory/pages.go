package memory

import (
	"errors"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
)

// pages are memory of this process, which is registered where it is allocated.
type pages struct {
	size     int
	opt      ibv.MemOptions
	implicit bool
	own      *ibv.MR
}

func (p *pages) register(pd *ibv.PD, access ibv.AccessFlags) (*ibv.MR, uint64, error) {
	if !p.implicit {
		mr, err := pd.AllocMR(p.size, access, &p.opt)
		if err != nil {
			return nil, 0, err
		}
		p.own = mr
		return mr, mr.Addr(), nil
	}
	all, err := pd.RegImplicit(access)
	if err != nil {
		return nil, 0, err
	}
	// Only its memory is used. Registered on demand it is not pinned, and unknown to the device under the other key.
	if p.own, err = pd.AllocMR(p.size, access|ibv.OnDemand, &p.opt); err != nil {
		return nil, 0, errors.Join(err, all.Close())
	}
	return all, p.own.Addr(), nil
}

func (p *pages) bytes() []byte { return p.own.Bytes() }

func (p *pages) ReadAt(b []byte, off int64) (int, error) { return readAt(p.bytes(), b, off) }

func (p *pages) WriteAt(b []byte, off int64) (int, error) { return writeAt(p.bytes(), b, off) }

func (p *pages) free() error {
	if p.own == nil {
		return nil
	}
	return p.own.Close()
}

// readAt copies from memory of this process.
func readAt(mem, b []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(mem)) || len(b) > len(mem)-int(off) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b, mem[off:]), nil
}

// writeAt copies to memory of this process.
func writeAt(mem, b []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(mem)) || len(b) > len(mem)-int(off) {
		return 0, io.ErrShortWrite
	}
	return copy(mem[off:], b), nil
}

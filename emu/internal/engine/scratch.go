//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// scratch is memory for reading and writing that is no message.
type scratch struct {
	cbuf   []byte
	civ    []guest.IOV
	rec    []byte
	riov   []guest.IOV
	places []int // in rec, of each record
	win    [3]guest.IOV
	look   []byte // a doorbell record and the blocks behind it
	tmp    [8]byte

	notes []piece // of a copy: where the adapter may write
}

// newScratch returns scratch for batches of so many WQEs.
func newScratch(batch int) *scratch {
	return &scratch{cbuf: make([]byte, 0, 128*(2*batch+2)), civ: spans(4*batch + 4), look: make([]byte, 4+windowBytes),
		rec: make([]byte, lookBytes), riov: spans(lookChunk), places: make([]int, lookChunk)}
}

func spans(n int) []guest.IOV { return make([]guest.IOV, 0, n) }

const (
	lookChunk  = 1024     // doorbell records read by one call
	lookBytes  = 64 << 10 // with what lies between them
	recordPage = 4096

	fewReady = 8 // QPs with work, above which nobody looks for more: looking at many costs as much as some messages
)

// records reads the doorbell records of QPs.
func (s *scratch) records(qps []*hca.QP, do func(qp *hca.QP, rq, sq uint16)) {
	eachRecord(s, qps, func(qp *hca.QP) (guest.Mem, uint64) { return qp.Mem, qp.DB }, func(qp *hca.QP, rec []byte) {
		do(qp, binary.BigEndian.Uint16(rec[2:]), binary.BigEndian.Uint16(rec[6:]))
	})
}

// eachRecord reads the doorbell records of objects, in few pieces: libraries put them side by side, and what a piece
// costs is finding its page. Objects are best in the order of their records.
func eachRecord[T any](s *scratch, list []T, of func(T) (guest.Mem, uint64), do func(o T, rec []byte)) {
	for len(list) > 0 {
		m, _ := of(list[0])
		s.riov = s.riov[:0]
		n, size := 0, 0
		for ; n < len(list) && n < lookChunk; n++ {
			own, at := of(list[n])
			if own != m {
				break
			}
			if k := len(s.riov) - 1; k >= 0 {
				if p := &s.riov[k]; at >= p.Base && at+8-p.Base <= recordPage && p.Base/recordPage == at/recordPage {
					grown := max(p.Len, at+8-p.Base)
					if size+int(grown-p.Len) > len(s.rec) {
						break
					}
					size += int(grown - p.Len)
					p.Len, s.places[n] = grown, size-int(grown)+int(at-p.Base)
					continue
				}
			}
			if size+8 > len(s.rec) {
				break
			}
			s.riov = append(s.riov, guest.IOV{Base: at, Len: 8})
			s.places[n] = size
			size += 8
		}
		err := m.ReadV(s.rec[:size], s.riov)
		for i, o := range list[:n] {
			rec := s.rec[s.places[i] : s.places[i]+8]
			if err != nil {
				rec = s.tmp[:]
				if _, at := of(o); m.Read(at, rec) != nil {
					continue
				}
			}
			do(o, rec)
		}
		list = list[n:]
	}
}

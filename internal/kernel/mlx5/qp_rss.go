package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// createRSS makes a QP that spreads frames among WQs. It has no rings.
func (v *Verbs) createRSS(h handle, a *abi.QPInitAttrEx) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	t, err := get[indTable](v, a.RwqIndTbl)
	if err != nil {
		return 0, err
	}
	hash := &a.RxHashConf
	d := &abi.MLX5IBCreateQPRSS{RxHashFieldsMask: hash.RxHashFieldsMask, RxHashFunction: hash.RxHashFunction,
		RxKeyLen: hash.RxHashKeyLen}
	if int(hash.RxHashKeyLen) > len(d.RxHashKey) {
		return 0, syscall.EINVAL
	}
	copy(d.RxHashKey[:], cmem.Slice[byte](hash.RxHashKey, int(hash.RxHashKeyLen)))
	q := &qp{ringed: of(p.c), opened: true, init: *a}
	return q.enter(q, ring{}, func() error {
		k := &abi.UverbsCreateQP{UserHandle: uint64(q.handle), PDHandle: p.number, QPType: uint8(a.QPType)}
		r, err := p.c.file.CreateQP(k, uverbs.QPOptions{Table: &t.number, NoSend: true, NoRecv: true},
			uverbs.Driver{In: uverbs.Bytes(d), Out: uverbs.Bytes(new(abi.MLX5IBCreateQPResp))})
		if err == nil {
			q.kernel, q.number = r.QPHandle, r.QPN
		}
		return err
	})
}

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
	d := &createRSS{fields: hash.RxHashFieldsMask, function: hash.RxHashFunction, keyLen: hash.RxHashKeyLen}
	if int(hash.RxHashKeyLen) > len(d.key) {
		return 0, syscall.EINVAL
	}
	copy(d.key[:], cmem.Slice[byte](hash.RxHashKey, int(hash.RxHashKeyLen)))
	q := &qp{ringed: of(p.c), opened: true, init: *a}
	q.handle = v.table.add(q)
	k := &uverbs.CreateQP{User: uint64(q.handle), PD: p.number, Type: uint8(a.QPType)}
	r, err := p.c.file.CreateQP(k, uverbs.QPOptions{Table: &t.number, NoSend: true, NoRecv: true},
		uverbs.Driver{In: uverbs.Bytes(d), Out: uverbs.Bytes(new(createQPResp))})
	if err != nil {
		v.table.remove(q.handle)
		return 0, err
	}
	q.kernel, q.number = r.Handle, r.Num
	return q.handle, nil
}

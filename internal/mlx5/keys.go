package mlx5

import "encoding/binary"

// AddKey makes completions of wrong signatures find k by the key that it is of.
func (t *Table) AddKey(key uint32, k *SignedKey) { t.signed.Store(key>>8, k) }

// RemoveKey undoes AddKey. The device may have given the number to another key meanwhile.
func (t *Table) RemoveKey(key uint32, k *SignedKey) { t.signed.CompareAndDelete(key>>8, k) }

// wrongSignature records entry e, which names a key and no QP, and reports whether the key is there.
func (t *Table) wrongSignature(e *[64]byte) bool {
	k, ok := t.signed.Load(binary.BigEndian.Uint32(e[36:]) >> 8)
	if ok {
		k.(*SignedKey).noteWrong(e)
	}
	return ok
}

//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

// checkPrint compares the mapping under a key with the one at the first look (strict mode), now and then or when forced.
func (e *Engine) checkPrint(k *hca.MKey, force bool) {
	if k.Kind != hca.KeyMR || k.Len == 0 || !e.watching() {
		return
	}
	r := &k.Run
	now := nanos()
	if !force && r.Print != 0 && now-r.At < printEvery {
		return
	}
	if force && r.Print == 0 {
		return
	}
	r.At = now
	maps, err := k.Mem.Maps(k.Addr, k.Len)
	if err != nil {
		return
	}
	var b []byte
	at := k.Addr
	for _, m := range maps {
		if m.Start > at {
			break
		}
		at = m.End
		b = append(b, m.Dev...)
		for _, v := range [...]uint64{m.Inode, m.Offset - m.Start} {
			for i := range 8 {
				b = append(b, byte(v>>(8*i)))
			}
			if m.Inode == 0 {
				break
			}
		}
	}
	if at-k.Addr < k.Len {
		if k.Mem.Read(at, e.io.tmp[:1]) != guest.ErrFault {
			return // the program has ended
		}
		if r.Print != 1 {
			e.violate(k.Mem.PID, RuleMRUnmapped, "key 0x"+hex(k.Key)+": address 0x"+hex64(at)+" of the region is not mapped")
		}
		r.Print = 1
		return
	}
	print := hash(b) | 2
	if r.Print != 0 && r.Print != print {
		e.violate(k.Mem.PID, RuleMRRemapped, "key 0x"+hex(k.Key)+": the mapping at 0x"+hex64(k.Addr)+" is another one than before")
	}
	r.Print = print
}

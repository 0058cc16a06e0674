package ibv

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// Close destroys the CQ; it fails with a *BusyError while QPs or SRQs use it.
//
// C: ibv_destroy_cq(3).
func (cq *CQ) Close() error {
	var used cqOps
	var moved *dma.Mem
	return cq.node.close(func() error {
		cq.mu.Lock()
		defer cq.mu.Unlock()
		if cq.direct.ring != nil {
			cq.direct.ring.Hide()
			if !cq.mu.Off {
				mlx5.Quiesce() // readers of the ring without the lock
			}
		}
		if cq.channel != nil {
			cq.channel.acknowledge(cq)
		}
		if err := cq.dev.v.DestroyCQ(cq.handle); err != nil {
			if cq.direct.ring != nil && cq.held == nil {
				cq.direct.ring.Show()
			}
			return err
		}
		cq.dev.unregister(cq.handle)
		if cq.channel != nil {
			cq.channel.remove(cq)
		}
		used, moved = cq.ops, cq.direct.moved
		cq.ops.poller, cq.ops.extended, cq.ops.other, cq.ops.clock, cq.direct.moved = nil, nil, nil, nil, nil
		cq.direct.live, cq.direct.fast, cq.held = nil, nil, nil
		close(cq.done)
		return nil
	}, func() error {
		err := errors.Join(used.poller.Free(), used.extended.Free(), used.clock.Free(), moved.Free())
		if used.other != nil {
			err = errors.Join(err, used.other.Free())
		}
		return err
	})
}

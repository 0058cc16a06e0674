package ucma

import (
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// CreateEventChannel is rdma_create_event_channel.
func (c *CM) CreateEventChannel() (control.Handle, error) {
	if err := c.devices.some(); err != nil {
		return 0, err
	}
	f, err := c.open()
	if err != nil {
		return 0, err
	}
	h := c.handle()
	c.channels.put(h, &channel{file: f})
	return h, nil
}

// DestroyEventChannel is rdma_destroy_event_channel.
func (c *CM) DestroyEventChannel(h control.Handle) {
	if ch, err := c.channels.get(h); err == nil {
		c.channels.drop(h)
		ch.file.Close()
	}
}

// ChannelFD returns the descriptor, -1 of a channel that is destroyed.
func (c *CM) ChannelFD(h control.Handle) int {
	ch, err := c.channels.get(h)
	if err != nil {
		return -1
	}
	return ch.file.FD()
}

// MoveRequests moves the connection requests that nobody has read.
func (c *CM) MoveRequests(from, to control.Handle) {
	f, err := c.channels.get(from)
	if err != nil {
		return
	}
	if t, err := c.channels.get(to); err == nil {
		_ = t.file.Do(func(w usercm.Writer) error { return usercm.MoveRequests(w, f.file.FD()) })
	}
}

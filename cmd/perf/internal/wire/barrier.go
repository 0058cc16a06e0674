package wire

import (
	"errors"
	"fmt"
	"time"
)

// UseGID decides between the two forms of keys: with a GID, as always on
// Ethernet, or without.
func (w *Conn) UseGID(yes bool) { w.gid = yes }

// UseStructs makes keys binary, as over rdma_cm.
func (w *Conn) UseStructs() { w.structs = true }

// Unacked has a client close the connection after its server. On iWARP a message that has arrived may fail at its
// sender if the receiver ends the connection at once, and the last message is the server's.
func (w *Conn) Unacked() { w.unacked = true }

// Keys exchanges the data of one queue pair.
func (w *Conn) Keys(step string, own Dest) (Dest, error) {
	return w.keys(step, own, w.timeout)
}

// Barrier exchanges the data of a queue pair once more, to meet the peer, which
// may be late by limit.
func (w *Conn) Barrier(step string, own Dest, limit time.Duration) error {
	_, err := w.keys(step, own, limit)
	return err
}

func (w *Conn) keys(step string, own Dest, limit time.Duration) (Dest, error) {
	out := own.appendKey(nil, w.gid)
	if w.structs {
		out = own.appendStruct(nil, w.version >= longVersion)
	}
	var peer Dest
	err := w.inTurn(step, out, func() (err error) {
		peer, err = w.readKey(step, limit)
		return err
	})
	return peer, err
}

// readKey reads the short form first: a peer that uses the other form than we
// do would otherwise leave us waiting for the rest.
func (w *Conn) readKey(step string, limit time.Duration) (Dest, error) {
	if w.structs {
		return w.readStruct(step, limit)
	}
	in := make([]byte, keyLenGID)
	if err := w.read(step, in[:keyLenLID], limit); err != nil {
		return Dest{}, err
	}
	lid := in[keyLenLID-1] == 0
	switch {
	case lid && w.gid:
		return Dest{}, w.fail(step,
			errors.New("the peer gave no GID, this side uses one; give a GID index (-x) at both ends or at none"))
	case !lid && !w.gid:
		return Dest{}, w.fail(step,
			errors.New("the peer gave a GID, this side uses none; give a GID index (-x) at both ends or at none"))
	case !lid:
		if err := w.read(step, in[keyLenLID:], w.timeout); err != nil {
			return Dest{}, err
		}
	default:
		in = in[:keyLenLID]
	}
	peer, err := parseKey(in, w.gid)
	if err != nil {
		return Dest{}, w.fail(step, fmt.Errorf("%w: %v", ErrGarbage, err))
	}
	return peer, nil
}

func (w *Conn) readStruct(step string, limit time.Duration) (Dest, error) {
	in := make([]byte, structLen)
	if w.version >= longVersion {
		in = make([]byte, structLenLong)
	}
	if err := w.read(step, in, limit); err != nil {
		return Dest{}, err
	}
	d, err := parseStruct(in)
	if err != nil {
		return Dest{}, w.fail(step, fmt.Errorf("%w: %w", ErrGarbage, err))
	}
	return d, nil
}

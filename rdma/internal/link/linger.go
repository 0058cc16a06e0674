package link

import "time"

// LingerTime is the Options.Linger of those that have none. Tests set it.
var LingerTime = 5 * time.Second

// lingering is how long a closed connection stays.
type lingering struct {
	Most  time.Duration // how long Close waits; None: not at all
	timer *time.Timer   // ends a closed connection
}

// start has end called if the connection stays for too long.
func (l *lingering) start(end func()) {
	most := l.Most
	if most < 0 {
		most = LingerTime
	}
	l.timer = time.AfterFunc(most, end)
}

// stop undoes start, if that was called.
func (l *lingering) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

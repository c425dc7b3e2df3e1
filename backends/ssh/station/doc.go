// Package station is what the ssh back-end runs on a host: one process of the account
// that makes boxes there and lets the client reach the slotd of each.
//
// The client starts it through an ssh session and leaves. The station has its own session
// and answers on a socket in a folder that only the account may enter. Every box has a
// socket beside it, whose connections are passed on to the box. The client calls now and
// then. When it has not called for the linger time, because it died or the network did,
// the station ends its boxes, removes its folder and ends. Until then a client that lost
// its connection finds its boxes and their commands as they were.
//
// Boxes are those of the namespace back-end; plain processes of the account only where
// the setup says so by name, never as a fall-back.
package station

package client

import "net/http"

// Leave has the client take its server for one on another machine.
func (c *Client) Leave() { c.near = false }

// Through has the client post through t.
func (c *Client) Through(t http.RoundTripper) { c.post.Transport = t }

package client

// Leave has the client take its server for one on another machine.
func (c *Client) Leave() { c.near = false }

"""What the tests of the web page share: a browser, a way to the daemon, and pages as people use them."""
